"""One readable Python module per graph: kernels, and `call(args)` that runs them.

    def call(args):
        arg0, arg1 = args
        args.clear()                                     # inputs die with their last use
        buf0 = torch_mm(arg0, arg1)                      # a library call
        fused_relu_0(512, buf0)                          # a kernel, in place
        return [buf0]

Buffers that only kernels see are places in an arena; the others are tensors. `call` takes one
list, which it empties, and returns a list (PyTorch 2 paper, section 4.7).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from minitorch2 import config
from minitorch2.codegen.arena import Interval, plan_arenas
from minitorch2.codegen.common import INDENT, print_expr
from minitorch2.codegen.extern import ExternPrinter
from minitorch2.codegen.spelling import definitions
from minitorch2.codegen.standalone import main_text
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.scope import Scope
from minitorch2.graph.symbols import bindings, print_condition
from minitorch2.graph.symbols.conditions import is_condition
from minitorch2.loopir.buffers import Buffer, BufferView, ComputedBuffer, ConstantBuffer, HostCall
from minitorch2.loopir.expressions import Expr, product
from minitorch2.loopir.layout import FixedLayout
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    NopKernelSchedulerNode,
    Schedule,
    bodies,
    buffers_of,
    kernels_in,
)


@dataclass(frozen=True)
class KernelCall:
    """How the wrapper launches one kernel: `name(iterations, tensor..., size...)`. If it is one for
    a GPU, the current stream comes behind the iterations."""

    name: str
    definition: str
    iterations: Expr
    buffers: tuple[str, ...]
    sizes: tuple[Expr, ...]
    takes_stream: bool = False


@dataclass(frozen=True)
class JoinedCall:
    """How the wrapper launches several kernels for a CPU: with the arguments of each call."""

    name: str
    definition: str
    calls: tuple[KernelCall, ...]
    takes_stream: bool = False


@dataclass
class WrapperModule:
    """The text of the module, and the objects that it names, as tensors of the graph.

    ``inputs`` are those of the graph; ``graphs`` the modules of graphs that the objects hold.
    """

    text: str
    namespace: dict[str, Any]
    inputs: Sequence[Any] = ()
    graphs: Mapping[GraphModule, WrapperModule] = field(default_factory=dict)

    def program(self) -> str:
        """The text with the objects that it names: a program of its own.

        Raises:
            UnspellableError: one of them is nothing that a text could tell.
        """
        graphs = {graph: module.program() for graph, module in self.graphs.items()}
        named = definitions(self.namespace, graphs)
        return "\n\n".join(part for part in (self.text, named) if part) + main_text(self.inputs, {})


@dataclass
class _Lines:
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.lines.append(INDENT + line)


class WrapperPrinter:
    """Prints the wrapper of a schedule whose kernels are printed already."""

    def __init__(
        self,
        lowered: LoweredGraph,
        schedule: Schedule,
        kernels: Mapping[str, KernelCall | JoinedCall],
    ) -> None:
        self.lowered = lowered
        self.schedule = schedule
        self.kernels = kernels
        self.buffers = buffers_of(schedule.nodes)
        self.inputs = {b.name: b for b in lowered.inputs if isinstance(b, Buffer)}
        self.namespace: dict[str, Any] = {
            name: constant.value for name, constant in lowered.constants.items()
        }
        functions = {call.name for call in kernels.values()}
        self.names = Scope(WORDS, self.inputs, self.buffers, {*self.namespace}, functions)
        self.extern = ExternPrinter(self.namespace, self.view, self.names)
        self.body = _Lines()
        self.outputs = [o for o in lowered.outputs if isinstance(o, BufferView)]
        self.arenas = list(plan_arenas([*self._hidden()]))
        self.offsets = {k: v for arena in self.arenas for k, v in arena.offsets.items()}
        self.copies: dict[str, str] = {}
        self.held = dict(self._as_they_are_read())
        self.born: set[str] = set()

    # -- memory ------------------------------------------------------------------------------------

    def _root(self, name: str) -> str:
        return self.schedule.inplace.owner(name)

    def _device(self) -> torch.device:
        """Where the graph computes: the first kernel's device, or the CPU."""
        computed = (b for b in self.buffers.values() if isinstance(b, ComputedBuffer))
        return next((b.device for b in computed), torch.device("cpu"))

    def _last_use(self, root: str) -> int:
        """The last node that uses the memory of `root` under any name."""
        return max(
            position
            for name, position in self.schedule.last_use.items()
            if self._root(name) == root
        )

    def _hidden(self) -> Iterator[Interval]:
        """The static buffers that no library call, no caller and no check sees."""
        if config.current().assert_no_nan:
            return
        visible = {self._root(view.name) for view in self.outputs}
        for node in self.schedule.nodes:
            if isinstance(node, ExternKernelSchedulerNode):
                visible |= {self._root(name) for name in (*node.read_names, node.name)}
        for position, node in enumerate(self.schedule.nodes):
            for name in sorted(node.written_names):
                buffer = self.buffers[name]
                is_ours = isinstance(buffer, ComputedBuffer) and name not in self.schedule.removed
                is_ours = is_ours and buffer.device == self._device()
                if is_ours and self._root(name) == name and name not in visible:
                    size = buffer.fixed_layout().storage_size()
                    if isinstance(size, int):
                        nbytes = size * buffer.dtype.itemsize
                        yield Interval(name, nbytes, position, self._last_use(name))

    def _as_they_are_read(self) -> Iterator[tuple[str, FixedLayout]]:
        """The buffers that library calls and the caller all see as the same view: they are made
        like that. To make a view at the call takes half as long as to launch a kernel.
        """
        seen = defaultdict[str, set[FixedLayout]](set)
        calls = (n.kernel for n in self.schedule.nodes if isinstance(n, ExternKernelSchedulerNode))
        for view in (*self.outputs, *(view for kernel in calls for view in kernel.views())):
            seen[view.name].add(view.layout)
        for name, (layout, *others) in seen.items():
            buffer = self.buffers.get(name)
            if others or not isinstance(buffer, ComputedBuffer):
                continue
            if _extent(layout) == _extent(buffer.fixed_layout()):
                yield name, layout

    def _begin_arena(self, position: int) -> None:
        """Allocate the arena of the kernels from here on, maybe of no bytes: empty buffers have
        addresses, too.
        """
        for arena in self.arenas:
            if arena.start == position:
                layout = FixedLayout(self._device(), torch.uint8, (arena.bytes,), (1,))
                self.body.add(f"arena = {self._empty(layout)}")
                self.body.add("base = arena.data_ptr()")

    def _allocate(self, name: str) -> None:
        """Make the memory of a computed buffer, unless it has some already."""
        if name in self.schedule.removed or name in self.born or name in self.offsets:
            return
        root = self.schedule.inplace.get(name)
        self.born.add(name)
        if root is not None:
            if root not in self.offsets:
                self._take_over(name, root)
            return
        self.body.add(f"{name} = {self._empty(self._held(name))}")

    def _take_over(self, name: str, old: str) -> None:
        """`name` is the same memory as `old`, and the same tensor: views know its shape."""
        if self._is_arena(old):
            return
        self.held[name] = self._held(old)
        self.body.add(f"{name} = {old}; del {old}  # in place")
        self.born.discard(old)

    def _held(self, name: str) -> FixedLayout:
        """The layout of the tensor that a name stands for: its own or an earlier owner's."""
        return self.held.get(name) or (self.buffers | self.inputs)[name].fixed_layout()

    def _is_arena(self, name: str) -> bool:
        return self._root(name) in self.offsets

    def _empty(self, layout: FixedLayout) -> str:
        size, stride = _tuple(layout.size), _tuple(layout.stride)
        if layout.device.type == "cpu":
            return f"empty_cpu({size}, {stride}, {layout.dtype})"
        if layout.device.type == "cuda":
            return f"empty_gpu({size}, {stride}, {layout.dtype}, {layout.device.index or 0})"
        place = f"dtype={layout.dtype}, device={str(layout.device)!r}"
        return f"empty_strided({size}, {stride}, {place})"

    def _free(self, position: int) -> None:
        """Drop the names whose last use was at `position`."""
        kept = {view.name for view in self.outputs}
        dead = [
            name
            for name, last in self.schedule.last_use.items()
            if last == position and name not in kept and self._has_name(name)
        ]
        if dead:
            self.body.add(f"del {', '.join(dead)}")

    def _has_name(self, name: str) -> bool:
        if isinstance(self.inputs.get(name), ConstantBuffer) or name in self.lowered.constants:
            return False
        is_taken = name in self.schedule.inplace.taken
        is_memory = name in self.inputs or name in self.born
        return is_memory and not is_taken and not self._is_arena(name)

    # -- text --------------------------------------------------------------------------------------

    def print(self) -> WrapperModule:
        """The whole module."""
        self._enter_device()
        self._unpack()
        if any(call.takes_stream for call in self.kernels.values()):
            self.body.add(f"stream = {_stream(self._device())}")
        for position, node in enumerate(self.schedule.nodes):
            self._begin_arena(position)
            if isinstance(node, ExternKernelSchedulerNode):
                self.body.lines += [INDENT + line for line in self.extern.call(node.kernel)]
                if not isinstance(node.kernel, HostCall):
                    self.born.add(node.name)
            elif isinstance(node, NopKernelSchedulerNode):
                if not self._is_wanted(node.name, position):
                    continue  # the library may give None for it
                self.body.lines += [INDENT + line for line in self.extern.output(node.buffer)]
                self.born.add(node.name)
            else:
                self._launch(node)
            self._free(position)
            if any(arena.end == position for arena in self.arenas):
                self.body.add("del arena")
        self.body.add(f"return [{', '.join(map(self._output, self.lowered.outputs))}]")
        return WrapperModule(self._assemble(), self.namespace, self.lowered.inputs)

    def _is_wanted(self, name: str, position: int) -> bool:
        """Whether anyone reads a result of a library call."""
        is_read = self.schedule.last_use.get(name, position) > position
        return is_read or any(view.name == name for view in self.outputs)

    def _enter_device(self) -> None:
        """Kernels run on the current device, which another thread or model may have changed."""
        device = self._device()
        if device.type == "cuda" and device.index is not None:
            self.body.add(f"if torch.cuda.current_device() != {device.index}:")
            self.body.add(f"{INDENT}with torch.cuda.device({device.index}):")
            self.body.add(f"{INDENT * 2}return call(args)")

    def _unpack(self) -> None:
        names, sizes = [], []
        for number, value in enumerate(self.lowered.inputs):
            if isinstance(value, Buffer):
                names.append(value.name)
            else:
                is_symbol = isinstance(value, sympy.Symbol)
                names.append(str(value) if is_symbol else self.names.fresh(f"number{number}"))
                sizes.append((value, names[-1]))
        if names:
            self.body.add(f"{', '.join(names)}{',' if len(names) == 1 else ''} = args")
        self.body.add("args.clear()")
        known = {*names, *self._unpack_shapes(names)}
        sizes += [
            (size, f"{buffer.name}.size({dim})")
            for buffer in self.inputs.values()
            for dim, size in enumerate(buffer.size)
        ]
        for symbol, text in bindings(sizes):
            if str(symbol) not in known:
                self.body.add(f"{symbol} = {text}")
        for buffer in self.inputs.values() if config.current().assert_layouts else ():
            layout = f"{_tuple(buffer.fixed_layout().size)}, {_tuple(buffer.fixed_layout().stride)}"
            self.body.add(f"assert_layout({buffer.name!r}, {buffer.name}, {layout})")

    def _unpack_shapes(self, known: Sequence[str]) -> list[str]:
        """`s0, s1 = x.shape`: a shape is read faster as a whole than size by size."""
        found: list[str] = []
        for buffer in self.inputs.values():
            symbols = [str(n) if isinstance(n, sympy.Symbol) else "_" for n in buffer.size]
            places = ["_" if name in (*known, *found) else name for name in symbols]
            if set(places) - {"_"}:
                comma = "," if len(places) == 1 else ""
                self.body.add(f"{', '.join(places)}{comma} = {buffer.name}.shape")
            found += places
        return found

    def _launch(self, node: BaseSchedulerNode) -> None:
        call = self.kernels[node.name]
        computed = [body for kernel in kernels_in(node) for body in bodies(kernel)]
        for body in computed:
            self._allocate(body.name)
        if isinstance(call, JoinedCall):
            pairs = zip(call.calls, kernels_in(node), strict=True)
            each = [f"{INDENT}{self._arguments(one, kernel)}," for one, kernel in pairs]
            for line in (f"{call.name}(", *each, ")"):
                self.body.add(line)
        elif call.iterations != 0:
            self.body.add(f"{call.name}({self._arguments(call, node)})")
        for body in computed if config.current().assert_no_nan else ():
            if body.name in self.born:
                self.body.add(f"assert_no_nan({body.name!r}, {body.name}, {call.name!r})")

    def _arguments(self, call: KernelCall, node: BaseSchedulerNode) -> str:
        """What a kernel is called with."""
        first = [print_expr(call.iterations), *["stream"] * call.takes_stream]
        sizes = [print_expr(size) for size in call.sizes]
        memory = [self._argument(name, node) for name in call.buffers]
        return ", ".join([*first, *memory, *sizes])

    def _argument(self, root: str, node: BaseSchedulerNode) -> str:
        """A buffer's memory: the tensor that has it now, or the address in the arena."""
        if root in self.offsets:
            offset = self.offsets[root]
            return f"base + {offset}" if offset else "base"
        names = (*sorted(node.written_names), *sorted(node.read_names))
        holders = (name for name in names if name in self.born and self._root(name) == root)
        device = bodies(kernels_in(node)[0])[0].buffer.device
        return self._moved(root, device) or next(holders, root)

    def _moved(self, name: str, device: torch.device) -> str | None:
        """A copy, for a tensor (of one number) that lies on another device."""
        source = self.inputs.get(name) or self.lowered.constants.get(name)
        if source is None or source.device == device:
            return None
        place = f"{name} on {device}"
        if place not in self.copies:
            self.copies[place] = self.names.fresh(f"{name}_on_{device.type}")
            self.body.add(f"{self.copies[place]} = {name}.to({str(device)!r})")
        return self.copies[place]

    def view(self, view: BufferView) -> str:
        """A window on a buffer as a tensor."""
        name, layout = view.name, view.layout
        own = self.held.get(name) or view.buffer.fixed_layout()
        if (layout.size, layout.stride, layout.offset) == (own.size, own.stride, own.offset):
            return name
        if layout.offset == 0:
            return f"as_strided({name}, {_tuple(layout.size)}, {_tuple(layout.stride)})"
        offset = print_expr(layout.offset)
        if not isinstance(view.buffer, ComputedBuffer):
            offset = f"{name}.storage_offset() + {offset}"
        return f"as_strided({name}, {_tuple(layout.size)}, {_tuple(layout.stride)}, {offset})"

    def _output(self, value: object) -> str:
        if isinstance(value, BufferView):
            return self.view(value)
        if is_condition(value):
            return print_condition(value)
        return print_expr(value) if isinstance(value, (int, float, sympy.Basic)) else repr(value)

    def _assemble(self) -> str:
        head = [line for word, line in _NUMBER_IMPORTS.items() if word in "".join(self.body.lines)]
        head += ["import torch", "from torch import as_strided, empty_strided"]
        head += self.extern.imports()
        checks = [name for name in _CHECKS if any(f"{name}(" in line for line in self.body.lines)]
        if checks:
            head.append(f"from minitorch2.codegen.asserts import {', '.join(checks)}")
        definitions = list(dict.fromkeys(call.definition for call in self.kernels.values()))
        head += [
            line for name, line in _KERNEL_IMPORTS.items() if f"{name}(" in "".join(definitions)
        ]
        for name in ("empty_cpu", "empty_gpu"):
            if any(f" = {name}(" in line for line in self.body.lines):
                head.append(f"from minitorch2.codegen.numba.tensors import {name}")
        if any("current_stream(" in line for line in self.body.lines):
            head.append("from torch._C import _cuda_getCurrentRawStream as current_stream")
        return "\n".join(
            [_DOC, *head, "", *definitions, "", "def call(args):", *self.body.lines, ""]
        )


_DOC = '"""Generated by minitorch2: the kernels of one graph, and the function that runs them."""\n'
_CHECKS = ("assert_layout", "assert_no_nan")
WORDS = frozenset((
    "_", "args", "arena", "base", "call", "stream", "as_strided", "current_stream", "empty_cpu",
    "empty_gpu", "empty_strided", "float_bits", "join_kernels", "load_kernel", "load_triton_kernel",
    "KernelSource", "measure", "random_tensor", "with_layout", "copy_to_layout", *_CHECKS,
    "math", "minitorch2", "operator", "torch",
))  # fmt: skip
"""What a wrapper's text means by its own words; nothing else in it is called so."""
_NUMBER_IMPORTS = {
    "math.": "import math",
    "float_bits(": "from minitorch2.graph.symbols.floats import float_bits",
}
"""What the text of numbers that are no integers refers to."""
_KERNEL_IMPORTS = {
    " load_kernel": "from minitorch2.codegen.numba.runtime import KernelSource, load_kernel",
    " join_kernels": "from minitorch2.codegen.numba.runtime import join_kernels",
    " load_triton_kernel": "from minitorch2.codegen.triton.launch import load_triton_kernel",
}
"""What defines a kernel, by how its definition calls it: Triton is imported only where needed."""


def _extent(layout: FixedLayout) -> tuple[object, ...]:
    """The memory that a layout covers."""
    return layout.device, layout.dtype, layout.offset, layout.storage_size(), product(layout.size)


def _stream(device: torch.device) -> str:
    """The current stream, as a number; kernels that are interpreted have none."""
    return "0" if device.type == "cpu" else f"current_stream({device.index or 0})"


def _tuple(sizes: tuple[Expr, ...]) -> str:
    items = [print_expr(size) for size in sizes]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
