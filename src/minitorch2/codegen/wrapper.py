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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import sympy
import torch

from minitorch2 import config
from minitorch2.codegen.common import INDENT, print_expr, print_tuple
from minitorch2.codegen.extern import ExternPrinter
from minitorch2.codegen.memory import Memory
from minitorch2.codegen.spelling import UnspellableError, definitions
from minitorch2.codegen.standalone import main_text
from minitorch2.codegen.target import Definition, Kernel, Launch
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.scope import Scope
from minitorch2.graph.symbols import bindings, print_condition
from minitorch2.graph.symbols.conditions import is_condition
from minitorch2.graph.symbols.floats import FloatBits
from minitorch2.loopir.buffers import Buffer, BufferView, ComputedBuffer, ExternKernel, HostCall
from minitorch2.loopir.layout import FixedLayout
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    NopKernelSchedulerNode,
    Schedule,
    bodies,
    kernels_in,
)


@dataclass
class WrapperModule:
    """The text of the module, and the objects that it names, as tensors of the graph.

    ``inputs`` are those of the graph; ``graphs`` the modules of graphs that the objects hold.
    ``launches`` are by the name of a node of the schedule. ``nodes`` names, for each of the text's
    last lines, the node that it belongs to, or "".
    """

    text: str
    namespace: dict[str, Any]
    inputs: Sequence[Any] = ()
    graphs: Mapping[GraphModule, Callable[[], str]] = field(default_factory=dict)
    launches: Mapping[str, Launch] = field(default_factory=dict)
    nodes: Sequence[str] = ()

    def main(self) -> str:
        """Return code that measures the module if it is run alone, with constants like these."""
        return main_text(self.inputs, self.namespace, dict(self._programs()))

    def _programs(self) -> Iterator[tuple[GraphModule, str]]:
        """Yield the programs of those graphs that have one."""
        for graph, program in self.graphs.items():
            with suppress(UnspellableError):
                yield graph, program()

    def program(self) -> str:
        """Return the text with the objects that it names: a program of its own.

        Raises:
            UnspellableError: one of them has no text form.
        """
        graphs = {graph: program() for graph, program in self.graphs.items()}
        named = definitions(self.namespace, graphs)
        return "\n\n".join(part for part in (self.text, named) if part) + main_text(self.inputs, {})


class WrapperPrinter:
    """The printer of the wrapper of a schedule whose kernels are printed already."""

    def __init__(
        self,
        lowered: LoweredGraph,
        schedule: Schedule,
        launches: Mapping[str, Launch],
        definitions: Sequence[Definition],
    ) -> None:
        self.lowered = lowered
        self.schedule = schedule
        self.launches = launches
        self.takes_stream = any(launch.takes_stream for launch in launches.values())
        self.definitions = definitions
        self.memory = Memory(lowered, schedule)
        self.buffers = self.memory.buffers
        self.inputs = {b.name: b for b in lowered.inputs if isinstance(b, Buffer)}
        self.namespace: dict[str, Any] = {
            name: constant.value for name, constant in lowered.constants.items()
        }
        functions = {launch.name for launch in launches.values()}
        self.imports = {w: m for d in self.definitions for w, m in d.imports.items()}
        words = WORDS | functions | self.imports.keys()
        self.names = Scope(words, self.inputs, self.buffers, {*self.namespace})
        self.extern = ExternPrinter(self.namespace, self.view, self.names, self.memory.reused)
        self.body: list[str] = []
        self.node = ""
        self.nodes: list[str] = []
        self.copies: dict[str, str] = {}
        self.held = dict(self.memory.held)
        self.returned = {view.name for view in self.memory.outputs}
        self.kept = frozenset(self.memory.reused.values())
        self.born: set[str] = set()

    def _add(self, *lines: str) -> None:
        self.body += [INDENT + line for line in lines]
        self.nodes += [self.node] * len(lines)

    # -- memory ------------------------------------------------------------------------------------

    def _begin_arena(self, position: int) -> None:
        """Allocate the arena of the kernels from here on, maybe of no bytes: empty buffers have
        addresses, too.
        """
        arena = self.memory.arena_at(position)
        if arena is not None:
            layout = FixedLayout(self.memory.device, torch.uint8, (arena.bytes,), (1,))
            self._add(f"arena = {self._empty(layout)}")
            self._add("base = arena.data_ptr()")

    def _allocate(self, node: BaseSchedulerNode) -> None:
        """Allocate the memory of the buffers that a kernel computes, unless they have some."""
        needed = self.memory.allocated(node)
        for body in (body for kernel in kernels_in(node) for body in bodies(kernel)):
            old = self.schedule.inplace.get(body.name) or self.memory.reused.get(body.name)
            if old is not None and not self.memory.is_arena(old):
                self._take_over(body.name, old)
            elif body.name in needed:
                self._add(f"{body.name} = {self._empty(self._held(body.name))}")
                self.born.add(body.name)

    def _take_over(self, name: str, old: str) -> None:
        """Let `name` be the memory and the tensor of `old`; views know its shape."""
        self.held[name] = self._held(old)
        self._add(f"{name} = {old}; del {old}  # in place")
        self.born.discard(old)
        self.born.add(name)

    def _held(self, name: str) -> FixedLayout:
        """Return the layout of the tensor that a name stands for: its own or an earlier owner's."""
        return self.held.get(name) or (self.buffers | self.inputs)[name].fixed_layout()

    def _empty(self, layout: FixedLayout) -> str:
        planned, device = self._layout(layout), layout.device
        if device.type == "cpu":
            return f"{self._own('empty_cpu')}({planned}, {layout.dtype})"
        if device.type == "cuda":
            return f"{self._own('empty_gpu')}({planned}, {layout.dtype}, {device.index or 0})"
        return f"empty_strided({planned}, dtype={layout.dtype}, device={str(device)!r})"

    def _layout(self, layout: FixedLayout) -> str:
        """Return the size and the strides of a tensor as two arguments."""
        return f"{print_tuple(layout.size)}, {print_tuple(layout.stride)}"

    def _own(self, name: str) -> str:
        """Return the name of a function of this package, which the module imports."""
        self.imports[name] = _MODULES[name]
        return name

    def _free(self, position: int) -> None:
        """Drop the names whose last use was at `position`, unless their memory is used again."""
        dead = (name for name in self.memory.dead_after(position) if name not in self.kept)
        self._delete(name for name in dead if name in self.inputs or name in self.born)

    def _delete(self, names: Iterable[str]) -> None:
        text = ", ".join(names)
        if text:
            self._add(f"del {text}")

    # -- text --------------------------------------------------------------------------------------

    def print(self) -> WrapperModule:
        """Print the whole module."""
        self._enter_device()
        self._unpack()
        if self.takes_stream:
            device = self.memory.device  # kernels that are interpreted have no stream
            stream = "0" if device.type == "cpu" else f"current_stream({device.index or 0})"
            self._add(f"stream = {stream}")
        for position, node in enumerate(self.schedule.nodes):
            self._begin_arena(position)
            self.node = node.name
            if isinstance(node, ExternKernelSchedulerNode):
                self._call(node.kernel)
            elif not isinstance(node, NopKernelSchedulerNode):
                self._launch(node)
            elif self._is_read_behind(node, position):
                # The library may give None for a result that nothing reads.
                self._bind(node.name, self.extern.output(node.buffer), node.buffer.kernel)
            self.node = ""
            self._free(position)
            if position in self.memory.arena_ends:
                self._add("del arena, base")
        self._add(f"return [{', '.join(map(self._output, self.lowered.outputs))}]")
        text, inputs = self._assemble(), self.lowered.inputs
        return WrapperModule(
            text, self.namespace, inputs, launches=self.launches, nodes=tuple(self.nodes)
        )

    def _is_read_behind(self, node: NopKernelSchedulerNode, position: int) -> bool:
        is_used = self.schedule.last_use.get(node.name, 0) > position
        return is_used or node.name in self.returned or bool(node.buffer.symbols)

    def _enter_device(self) -> None:
        """Make the kernels' device current, since another thread or model may have changed it."""
        device = self.memory.device
        if device.type == "cuda" and device.index is not None:
            self._add(f"if torch.cuda.current_device() != {device.index}:")
            self._add(f"{INDENT}with torch.cuda.device({device.index}):")
            self._add(f"{INDENT * 2}return call(args)")

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
            self._add(f"{', '.join(names)}{',' if len(names) == 1 else ''} = args")
        self._add("args.clear()")
        known = {*names, *self._unpack_shapes(names)}
        sizes += [
            (size, f"{buffer.name}.size({dim})")
            for buffer in self.inputs.values()
            for dim, size in enumerate(buffer.size)
        ]
        for symbol, text in bindings(sizes):
            if str(symbol) not in known:
                self._add(f"{symbol} = {text}")
        for buffer in self.inputs.values() if config.current().assert_layouts else ():
            layout = self._layout(buffer.fixed_layout())
            check = self._own("assert_layout")
            self._add(f"{check}({buffer.name!r}, {buffer.name}, {layout})")
        used = {*self.schedule.last_use, *self.schedule.inplace.taken, *self.returned}
        self._delete(name for name in self.inputs if name not in used)

    def _unpack_shapes(self, known: Sequence[str]) -> list[str]:
        """`s0, s1 = x.shape`: a shape is read faster as a whole than size by size."""
        found: list[str] = []
        for buffer in self.inputs.values():
            symbols = [str(n) if isinstance(n, sympy.Symbol) else "_" for n in buffer.size]
            places = ["_" if name in (*known, *found) else name for name in symbols]
            if set(places) - {"_"}:
                comma = "," if len(places) == 1 else ""
                self._add(f"{', '.join(places)}{comma} = {buffer.name}.shape")
            found += places
        return found

    def _call(self, kernel: ExternKernel) -> None:
        """A library call; a result that is written into a dead tensor is that tensor."""
        lines = self.extern.call(kernel)
        if isinstance(kernel, HostCall):
            self._add(*lines)
            return
        old = self.memory.reused.get(kernel.name)
        if old is not None:
            lines[-1] += f"; del {old}"
            self.born.discard(old)
        self._bind(kernel.name, lines, None if kernel.outputs else kernel)

    def _bind(self, name: str, lines: Sequence[str], call: ExternKernel | None) -> None:
        """A tensor that a library call gives."""
        self._add(*lines)
        self.born.add(name)
        if config.current().assert_no_nan and call is not None:
            self._assert_no_nan(name, str(call.target))

    def _launch(self, node: BaseSchedulerNode) -> None:
        launch = self.launches[node.name]
        self._allocate(node)
        if len(launch.kernels) > 1:
            pairs = zip(launch.kernels, kernels_in(node), strict=True)
            each = [f"{INDENT}{self._arguments(launch, *pair)}," for pair in pairs]
            self._add(f"{launch.name}(", *each, ")")
        elif (kernel := launch.kernels[0]).iterations != 0:
            self._add(f"{launch.name}({self._arguments(launch, kernel, node)})")
        for name in sorted(node.written_names) if config.current().assert_no_nan else ():
            if name in self.born:
                self._assert_no_nan(name, launch.name)

    def _assert_no_nan(self, name: str, kernel: str) -> None:
        self._add(f"{self._own('assert_no_nan')}({name!r}, {name}, {kernel!r})")

    def _arguments(self, launch: Launch, kernel: Kernel[Any], node: BaseSchedulerNode) -> str:
        """Return the arguments of a kernel's call."""
        first = [print_expr(kernel.iterations), *["stream"] * launch.takes_stream]
        sizes = [print_expr(size) for size in kernel.sizes]
        memory = [self._argument(name, node) for name in kernel.buffers]
        return ", ".join([*first, *memory, *sizes])

    def _argument(self, root: str, node: BaseSchedulerNode) -> str:
        """Return a buffer's memory: the tensor that has it now, or the address in the arena."""
        if root in self.memory.offsets:
            offset = self.memory.offsets[root]
            return f"base + {offset}" if offset else "base"
        names = (*sorted(node.written_names), *sorted(node.read_names))
        holders = (name for name in names if name in self.born and self.memory.root(name) == root)
        device = bodies(kernels_in(node)[0])[0].buffer.device
        return self._moved(root, device) or next(holders, root)

    def _moved(self, name: str, device: torch.device) -> str | None:
        """Return a copy, for a tensor (of one number) that lies on another device."""
        source = self.inputs.get(name) or self.lowered.constants.get(name)
        if source is None or source.device == device:
            return None
        place = f"{name} on {device}"
        if place not in self.copies:
            self.copies[place] = self.names.fresh(f"{name}_on_{device.type}")
            self._add(f"{self.copies[place]} = {name}.to({str(device)!r})")
        return self.copies[place]

    def view(self, view: BufferView) -> str:
        """Return a window on a buffer as a tensor."""
        name, layout = view.name, view.layout
        own = self.held.get(name) or view.buffer.fixed_layout()
        if (layout.size, layout.stride, layout.offset) == (own.size, own.stride, own.offset):
            return name
        if layout.offset == 0:
            return f"as_strided({name}, {self._layout(layout)})"
        offset = print_expr(layout.offset)
        if not isinstance(view.buffer, ComputedBuffer):
            offset = f"{name}.storage_offset() + {offset}"
        return f"as_strided({name}, {self._layout(layout)}, {offset})"

    def _output(self, value: object) -> str:
        if isinstance(value, BufferView):
            return self.view(value)
        if is_condition(value):
            return print_condition(value)
        return print_expr(value) if isinstance(value, (int, float, sympy.Basic)) else repr(value)

    def _assemble(self) -> str:
        varies = any(b.symbols for b in self.lowered.buffers) or bool(self.lowered.hints)
        varies = varies or any(isinstance(i, sympy.Basic) for i in self.lowered.inputs)
        head = [*["import math"] * varies, "import torch"]  # numbers may be computed
        kernels = [kernel for launch in self.launches.values() for kernel in launch.kernels]
        sizes = (size for kernel in kernels for size in kernel.sizes)
        if any(isinstance(size, sympy.Basic) and size.has(FloatBits) for size in sizes):
            self._own("float_bits")
        head += ["from torch import as_strided, empty_strided", *self.extern.imports()]
        names = sorted(self.imports, key=lambda name: (self.imports[name], name))
        for module, group in groupby(names, self.imports.__getitem__):
            head.append(f"from {module} import {', '.join(group)}")
        if self.takes_stream and self.memory.device.type != "cpu":
            head.append("from torch._C import _cuda_getCurrentRawStream as current_stream")
        texts = [definition.text for definition in self.definitions]
        return "\n".join([_DOC, *head, "", *texts, "", "def call(args):", *self.body, ""])


_DOC = '"""Generated by minitorch2: the kernels of one graph, and the function that runs them."""\n'
WORDS = frozenset((
    "_", "args", "arena", "base", "call", "stream", "as_strided", "current_stream", "empty_cpu",
    "empty_gpu", "empty_strided", "float_bits", "measure", "missing", "random_tensor",
    "with_layout", "copy_to_layout", "assert_layout", "assert_no_nan", "math", "minitorch2",
    "operator", "torch",
))  # fmt: skip
"""What a wrapper's text means by its own words; nothing else in it is called so."""
_MODULES = {
    "assert_layout": "minitorch2.codegen.asserts",
    "assert_no_nan": "minitorch2.codegen.asserts",
    "float_bits": "minitorch2.graph.symbols.floats",
    "empty_cpu": "minitorch2.native.torch_internals.tensors",
    "empty_gpu": "minitorch2.native.torch_internals.tensors",
}
"""Where the functions are that a wrapper calls by its own words."""
