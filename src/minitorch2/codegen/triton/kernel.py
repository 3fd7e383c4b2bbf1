"""From fused loop nests to the text of a Triton kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sympy

from minitorch2.codegen.common import INDENT, drop_unused, user_lines
from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import KernelSource
from minitorch2.codegen.triton.arguments import KernelArgument, KernelArguments
from minitorch2.codegen.triton.blocks import Blocks
from minitorch2.codegen.triton.domain import KernelDomain, choose_domain
from minitorch2.codegen.triton.handler import TritonHandler
from minitorch2.codegen.triton.indexing import is_narrow
from minitorch2.codegen.triton.passes import split_into_passes
from minitorch2.codegen.triton.values import TRITON_POINTERS
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.schedule import KernelNode, SchedulerNode, bodies

IMPORTS = """\
import triton
import triton.language as tl

from minitorch2.codegen.triton import library as lib
from minitorch2.codegen.triton.launch import {decorator}
from minitorch2.codegen.triton.library import libdevice
"""


def print_triton_kernel(
    kernel: KernelNode,
    buffers: Mapping[str, Buffer],
    *,
    name: str,
    removed: Iterable[str] = (),
    inplace: Mapping[str, str] | None = None,
) -> Kernel[KernelSource]:
    """Print the kernel of a node of the schedule.

    Args:
        kernel: the loop bodies, over one domain.
        buffers: every buffer that they read or write, by name.
        name: what the kernel is called.
        removed: buffers that are never stored.
        inplace: for each buffer that takes over the memory of a dead one, that one.

    Raises:
        VerificationError: the bodies do not belong into one kernel.
        LoweringError: Triton has no such dtype or index arithmetic.
    """
    return KernelPrinter(kernel, buffers, frozenset(removed), inplace or {}).run(name)


def can_write_in_place(kernel: KernelNode, buffers: Mapping[str, Buffer]) -> bool:
    """Return whether an output may take over the memory of an input.

    It may not if the kernel loops: a later pass would read values that an earlier one has
    overwritten.
    """
    return not choose_domain(kernel, buffers, frozenset()).looped


class KernelPrinter:
    """The printer of a kernel over a domain; `program` is the number of the block to compute."""

    def __init__(
        self,
        kernel: KernelNode,
        buffers: Mapping[str, Buffer],
        removed: frozenset[str],
        inplace: Mapping[str, str],
        domain: KernelDomain | None = None,
        program: str = "tl.program_id(0)",
    ) -> None:
        self.kernel = kernel
        self.nodes = bodies(kernel)
        self.buffers = buffers
        self.removed = removed
        self.domain = domain or choose_domain(kernel, buffers, removed)
        self.program = program
        self.arguments = KernelArguments(inplace)
        self.handler = TritonHandler(
            {node.name: node for node in self.nodes},
            {buffer: item.dtype for buffer, item in buffers.items()},
            self.domain,
            self.arguments,
            removed,
            frozenset(inplace),
        )

    def run(self, name: str) -> Kernel[KernelSource]:
        """Print the kernel with its decorator."""
        lines, pointers, sizes = self.write()
        parameters = [argument.name for argument in (*pointers, *sizes)]
        decorator = self._decorator(pointers)
        code = function_text(parameters, self.domain.blocks, lines)
        imports = IMPORTS.format(decorator=decorator.partition("(")[0].removeprefix("@"))
        comments = "".join(f"{line}\n" for line in user_lines(self.kernel))
        text = f"{imports}\n\n{comments}{decorator}\n@triton.jit\ndef {name}{code}"
        return Kernel(
            KernelSource(name, text),
            self.domain.programs,
            tuple(str(pointer.value) for pointer in pointers),
            tuple(self._number(size) for size in sizes),
        )

    def write(self) -> tuple[list[str], list[KernelArgument], list[KernelArgument]]:
        """Return the lines of the body, the pointers and the sizes that they need."""
        self._print_passes()
        head = self._head()
        pointers = self.arguments.pointers()
        sizes = [*self.arguments.sizes(), *self._extents()]
        lines = [*self.handler.body.outer, *self.handler.final_stores]
        return [*head, *drop_unused(lines, self.handler.widened)], pointers, sizes

    def _number(self, size: KernelArgument) -> Expr:
        return self.domain.extents()[size.name] if size.name == size.value else size.value

    # -- the body -------------------------------------------------------------------------------

    def _print_passes(self) -> None:
        reduces = self.domain.rnumel is not None
        passes = split_into_passes(self.nodes, self.removed, reduces, self.domain.looped)
        last = max((i for i, one in enumerate(passes) if one.inside), default=0)
        for position, one in enumerate(passes):
            for node in one.before:
                self.handler.run(node)
            if one.inside:
                self.handler.online = one.online
                self._print_pass(one.inside, is_last=position == last)

    def _print_pass(self, nodes: Sequence[SchedulerNode], is_last: bool) -> None:
        if not self.domain.looped:
            for node in nodes:
                self.handler.run(node)
            return
        self.handler.is_last_pass = is_last
        self.handler.body.open_loop(["rindex = roffset + rbase", *self._mask("r")])
        for node in nodes:
            self.handler.run(node)
        rnumel = self.domain.rnumel if isinstance(self.domain.rnumel, int) else "rnumel"
        self.handler.body.close_loop(f"for roffset in range(0, {rnumel}, RBLOCK):")
        self.handler.forget_loop_values()

    # -- the head -------------------------------------------------------------------------------

    def _head(self) -> list[str]:
        domain, numel = self.domain, product(self.kernel.group)
        wide = is_wide(self.arguments.pointers(), self.buffers, numel)
        program = self.program + (".to(tl.int64)" if wide else "")
        lines = self._static_extents()
        if domain.ynumel is not None:
            assert isinstance(domain.ynumel, int) and domain.blocks.y is not None
            beside = -(-domain.ynumel // domain.blocks.y)  # tiles beside each other
            lines += [f"program = {program}", f"columns = {beside}"]
            lines += [*self._index("y", "program % columns", "[None, :]")]
            return [*lines, *self._index("x", "program // columns", "[:, None]")]
        lines += self._index("x", program, "" if domain.rnumel is None else "[:, None]")
        return lines if domain.rnumel is None else [*lines, *self._reduction_head(wide)]

    def _index(self, dim: str, block: str, broadcast: str) -> list[str]:
        """`xoffset`, `xindex`, `xmask` of a dimension."""
        size = f"{dim.upper()}BLOCK"
        block = f"({block})" if " " in block else block
        lines = [
            f"{dim}offset = {block} * {size}",
            f"{dim}index = {dim}offset + tl.arange(0, {size}){broadcast}",
        ]
        return [*lines, *self._mask(dim)]

    def _mask(self, dim: str) -> list[str]:
        return [f"{dim}mask = {dim}index < {dim}numel"] if self.domain.needs_mask(dim) else []

    def _reduction_head(self, wide: bool) -> list[str]:
        base = "tl.arange(0, RBLOCK)[None, :]" + (".to(tl.int64)" if wide else "")
        if self.domain.looped:
            return [f"rbase = {base}"]
        return [f"rindex = {base}", *self._mask("r")]

    def _static_extents(self) -> list[str]:
        """Return lines that define the sizes that masks need and that are not parameters."""
        return [
            f"{name} = {extent}"
            for name, extent in self.domain.extents().items()
            if isinstance(extent, int) and self.domain.needs_mask(name[0])
        ]

    def _extents(self) -> list[KernelArgument]:
        """Return the sizes that are parameters, because they vary."""
        return [
            KernelArgument(name, name)
            for name, extent in self.domain.extents().items()
            if isinstance(extent, sympy.Expr)
        ]

    def _decorator(self, pointers: Sequence[KernelArgument]) -> str:
        blocks = self.domain.blocks
        types = pointer_types(pointers, self.buffers)
        kind = "pointwise" if blocks.r is None else "reduction"
        kind = "persistent_reduction" if blocks.persistent else kind
        metadata = blocks.parameters() | {"num_warps": blocks.warps}
        text = ", ".join(f"{name}={value}" for name, value in metadata.items())
        checks = ", checks_indices=True" if self.handler.checks_indices else ""
        return f'@{kind}(pointers="{" ".join(types)}", {text}{checks})'


def is_wide(pointers: Sequence[KernelArgument], buffers: Mapping[str, Buffer], numel: Expr) -> bool:
    """Return whether addresses need 64 bits: a buffer is large, or may be."""
    sizes = [buffers[str(pointer.value)].fixed_layout().storage_size() for pointer in pointers]
    return not all(map(is_narrow, (*sizes, numel)))


def pointer_types(
    pointers: Sequence[KernelArgument], buffers: Mapping[str, Buffer]
) -> tuple[str, ...]:
    """Return Triton's types of the pointers."""
    return tuple(TRITON_POINTERS[buffers[str(pointer.value)].dtype] for pointer in pointers)


def function_text(parameters: Sequence[str], blocks: Blocks, lines: Sequence[str]) -> str:
    """Return a function without its name."""
    everything = [*parameters, *(f"{name}: tl.constexpr" for name in blocks.parameters())]
    return f"({', '.join(everything)}):\n" + "".join(f"{INDENT}{line}\n" for line in lines)
