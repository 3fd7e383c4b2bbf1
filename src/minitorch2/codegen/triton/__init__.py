"""Triton kernels: the loop bodies' handler that answers with Triton source.

It takes scheduled loop nests and gives GPU kernels as readable text, and what launches them
(PyTorch 2 paper, section 4.5). Read in this order:

    values.py      what a value is while a kernel is printed: a name, a dtype, dimensions
    functions.py   elementwise primitive -> Triton expression, one table
    indexing.py    SymPy addresses -> text; the variables x0, r1, ... that they are made of
    body.py        the lines of a kernel, common subexpressions, and what lies inside its loop
    arguments.py   in_ptr0, out_ptr0, ks0: names that do not depend on the graph
    passes.py      a fused group with reductions -> passes over the reduction's elements
    online.py      a sum of exponentials in the pass that finds their maximum
    blocks.py      block sizes and warps, from sizes alone
    handler.py     `TritonHandler`: loads, stores, reductions, masks
    kernel.py      `print_triton_kernel`: everything above, put together
    joined.py      several small kernels in one launch
    library.py     device functions that kernels call (the only files here that import triton:
    launch.py      load a kernel's file, compile it, launch it with little overhead  these two,
    libdevice_on_cpu.py  and the stand-in for CUDA's math library in the interpreter)
    target.py      kernels as the compiler of graphs asks for them
    own_kernels.py where extensions add kernels of their own
    templates/     such an extension: products, convolutions and attention by hand
    availability.py  can kernels run here? if not, one sentence that says why

Without a GPU, `TRITON_INTERPRET=1` in the environment runs every kernel on CPU tensors, in Python.
"""

from dataclasses import dataclass

from minitorch2 import cache
from minitorch2.loopir.schedule import Capabilities

CAPABILITIES = Capabilities(
    max_reads=32, recomputes_rows=True, fuses_siblings=True,
    joins=64, join_elements=1 << 22, max_pointers=480,
)  # fmt: skip
"""Softmax and layer norm are one kernel; a value that a later pass over a row needs is computed
again, however long the row is. A kernel with 127 pointers to read took 4.5 seconds to compile.
A launch has 4 KiB for arguments."""


@dataclass(frozen=True)
class KernelSource:
    """The text of a module with one kernel. Only the name and the comments depend on the graph."""

    name: str
    text: str

    def key(self) -> str:
        """Return a key that is equal for kernels that compute the same, whatever their names."""
        code = "\n".join(line for line in self.text.splitlines() if not line.startswith("#"))
        return cache.digest_of(code.replace(f"def {self.name}(", "def kernel("))
