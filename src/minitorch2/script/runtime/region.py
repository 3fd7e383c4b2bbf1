"""Regions: straight runs of tensor operators that a backend compiles, with their gradients.

    prim::DifferentiableGraph | prim::FusionGroup  ->  graph.Graph  ->  backend(module, examples)

A region has at most a few programs. The first is for the sizes that were seen. In the second, sizes
that were not the same are symbols; in the third, all are. A program runs where it `admits` the
inputs: dtype, device, layout, grad mode, and the conditions on sizes that compilation assumed. A
region runs operator by operator if no program can admit its inputs, such as tensors that a mode
watches. It also does if the form of a result is known only by running an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import sympy
import torch

from minitorch2 import stages
from minitorch2.backends.registry import fitting_backend
from minitorch2.foundation.compile_lock import COMPILING
from minitorch2.graph.fake_tensor import to_fake
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.symbols import ShapeEnv
from minitorch2.graph.symbols.admission import assumptions, function_of
from minitorch2.logs import get_logger
from minitorch2.native.torch_internals.global_state import is_any_autocast_enabled
from minitorch2.native.torch_internals.modes import (
    DeviceContext,
    DisableTorchFunction,
    count_dispatch_modes,
    count_function_modes,
    function_mode_at,
)
from minitorch2.script.ir.graph import Graph, Node, Value
from minitorch2.script.ir.types import TENSOR, Size, TensorType, Type
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.runtime.tensor_graph import TensorGraphWriter

_LOGGER = get_logger(__name__)
PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter})
MOST_PROGRAMS: Final = 8
"""Programs of one region; what none of them admits runs operator by operator."""


class FormUnknownError(Exception):
    """The form of a result of a region is not known without running it."""


class Region:
    """A region of a graph as a function of its inputs.

    Attributes:
        programs: what it has been compiled to.
        has_forms: whether the forms of all results are known without running it.
    """

    def __init__(self, graph: Graph, run_eagerly: Callable[..., Any]) -> None:
        self.graph = graph
        self.programs: list[Program] = []
        self.has_forms = True
        self._run_eagerly = run_eagerly
        self._writes = any(is_writing(node) for node in graph.nodes())
        self._seen: list[Shapes] = []

    def __call__(self, *inputs: Any) -> Any:
        if not (count_dispatch_modes() or is_any_autocast_enabled()):
            for program in self.programs:
                if program.admits(*inputs):
                    return program.run(*inputs)
            if self.has_forms and self._can_compile(inputs):
                try:
                    program = self._compile(inputs)
                except FormUnknownError as error:
                    return self._run_without_form(inputs, error)
                return program.run(*inputs)
        return self._run_eagerly(*inputs)

    def _run_without_form(self, inputs: Sequence[Any], error: FormUnknownError) -> Any:
        """Run operator by operator from now on, unless it is the program itself that fails."""
        result = self._run_eagerly(*inputs)
        self.has_forms = False
        stages.count("script_regions_without_form")
        _LOGGER.info("a region runs operator by operator: %s\n%s", error.__cause__, self.graph)
        return result

    def _can_compile(self, inputs: Sequence[Any]) -> bool:
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        if any(type(t) not in PLAIN or t.layout != torch.strided for t in tensors):
            return False
        if _are_functions_watched() or len(self.programs) >= MOST_PROGRAMS:
            return False
        memories = {tensor.untyped_storage()._cdata for tensor in tensors}
        return not self._writes or len(memories) == len(tensors)

    def _compile(self, inputs: Sequence[Any]) -> Program:
        # Scripts know of no default device: what they make is on the CPU, unless they say where.
        with COMPILING, torch.device("cpu"), DisableTorchFunction():
            shapes = shapes_of(inputs)
            alike = [seen for seen in self._seen if is_alike(seen, shapes)]
            self._seen.append(shapes)
            everything = len(alike) > 1
            varies = [
                [
                    everything or _is_open(value, d) or any(s[k][d] != n for s in alike)
                    for d, n in enumerate(sizes)
                ]
                for k, (value, sizes) in enumerate(zip(self.graph.inputs, shapes, strict=True))
            ]
            program = Program(self.graph, distinct(inputs), varies, writes=self._writes)
            self.programs.insert(0, program)
            stages.count("script_regions")
            return program


def _are_functions_watched() -> bool:
    """Return whether a function mode is active, other than a default device."""
    modes = map(function_mode_at, range(count_function_modes()))
    return any(type(mode) is not DeviceContext for mode in modes)


Shapes: TypeAlias = list[tuple[Any, ...]]


def shapes_of(inputs: Sequence[Any]) -> Shapes:
    """Return the sizes of each tensor; a number is a single size."""
    return [tuple(v.shape) if isinstance(v, torch.Tensor) else (v,) for v in inputs]


def distinct(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs with another tensor of the same memory for each that comes again.

    So a program serves inputs of which any are the same tensor.
    """
    seen, found = set[int](), list[Any]()
    for value in inputs:
        is_again = isinstance(value, torch.Tensor) and id(value) in seen
        found.append(value.detach().requires_grad_(value.requires_grad) if is_again else value)
        seen.add(id(value))
    return found


def is_alike(a: Shapes, b: Shapes) -> bool:
    """Return whether all tensors have the same ranks, and numbers the same types."""
    return all(len(x) == len(y) for x, y in zip(a, b, strict=True))


def _is_open(value: Value, dimension: int) -> bool:
    """Return whether profiles saw more than one size in a dimension of an input."""
    sizes = value.type.sizes if isinstance(value.type, TensorType) else None
    return sizes is not None and len(sizes) > dimension and sizes[dimension] is None


def is_writing(node: Node) -> bool:
    """Return whether an operator changes an input."""
    found = operator_of(node) if node.kind.startswith("aten::") else None
    return found is not None and found.schema is not None and found.schema.is_mutable


class Program:
    """A region, compiled for some sizes, layouts and grad modes.

    Attributes:
        admits: whether inputs are such that the program computes them.
        run: computes them.
        guards: the text of `admits`.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Any], varies: list[list[bool]], *, writes: bool
    ) -> None:
        self._env = ShapeEnv(duck_shapes=False)
        self._places: dict[sympy.Symbol, str] = {}
        self._writer = TensorGraphWriter()
        self._facts: dict[str, Any] = {"grad": torch.is_grad_enabled, "PLAIN": PLAIN}
        self._texts = [f"grad() is {torch.is_grad_enabled()}"]
        arguments = [f"x{k}" for k in range(len(inputs))]
        self._taken: list[int] = []
        known = [value.type for value in graph.inputs]
        given = list(map(self._input, arguments, inputs, varies, known))
        try:
            outputs = self._writer.add(graph, given)
        except Exception as error:  # kernels on meta tensors raise errors of any class
            raise FormUnknownError from error
        self._writer.graph.output(tuple(outputs))
        module = GraphModule(self._writer.graph)
        call = fitting_backend(module, [inputs[k] for k in self._taken])
        self._texts += assumptions(self._env, self._places)
        if writes:
            tensors = [f"x{k}" for k, v in enumerate(inputs) if isinstance(v, torch.Tensor)]
            memories = ", ".join(f"{name}.untyped_storage()._cdata" for name in tensors)
            self._texts.append(f"len({{{memories}}}) == {len(tensors)}")
        self.guards = " and ".join(self._texts)
        self.admits: Callable[..., bool] = function_of(arguments, self.guards, self._facts)
        taken = ", ".join(arguments[k] for k in self._taken)
        result = "[0]" if len(outputs) == 1 else ""
        self.run = function_of(arguments, f"call({taken}){result}", {"call": call})

    def _input(self, name: str, value: Any, free: list[bool], known: Type) -> Any:
        """Return what an input is in the graph: a placeholder, or a number that stays the same.

        Args:
            name: of the input in `guards`.
            value: the example.
            free: for each dimension, whether its size may vary.
            known: the type that every value here has, so that it needs no guard.
        """
        is_tensor = isinstance(value, torch.Tensor)
        if not is_tensor:
            self._texts.append(f"type({name}) is {type(value).__name__}")
            if not free[0] or type(value) is bool:
                self._texts.append(f"{name} == {value!r}")
                return value
        self._taken.append(int(name[1:]))
        if is_tensor:
            known = known if isinstance(known, TensorType) else TENSOR
            return self._tensor(name, value, free, known)
        number = self._env.input_number(name, value, marked=isinstance(value, float))
        self._places[number.node.expr] = name
        return self._writer.placeholder(name, number)

    def _tensor(self, name: str, value: torch.Tensor, free: list[bool], known: TensorType) -> Any:
        self._texts.append(f"type({name}) in PLAIN")
        for fact in ("dtype", "device"):
            if getattr(known, fact) != (found := getattr(value, fact)):
                self._facts[f"{name}_{fact}"] = found
                self._texts.append(f"{name}.{fact} == {name}_{fact}")
        self._texts.append(f"{name}.requires_grad is {value.requires_grad}")
        sizes: list[Any] = list(value.shape)
        is_dense = value.is_contiguous()
        for dimension, size in enumerate(value.shape):
            if free[dimension] and size > 1 and is_dense:
                source = f"{name}.size({dimension})"
                sizes[dimension] = self._env.input_size(source, size, shared=False, name=source)
                self._places[sizes[dimension].node.expr] = source
        varying = any(not isinstance(size, int) for size in sizes)
        self._texts += self._form(name, value, sizes, known.sizes or (), varying=varying)
        return self._writer.placeholder(name, to_fake(value, sizes) if varying else to_fake(value))

    def _form(
        self,
        name: str,
        value: torch.Tensor,
        sizes: list[Any],
        known: tuple[Size, ...],
        *,
        varying: bool,
    ) -> Iterator[str]:
        """Yield the conditions on the sizes and strides of an input.

        One question tells the strides of a contiguous tensor, unless a size of 1 hides one.
        """
        if not varying:
            if known != tuple(value.shape):
                yield f"{name}.shape == {tuple(value.shape)}"
            is_told = value.is_contiguous() and min(value.shape, default=0) > 1
            yield f"{name}.is_contiguous()" if is_told else f"{name}.stride() == {value.stride()}"
            return
        yield f"{name}.dim() == {value.dim()}"
        yield f"{name}.is_contiguous()"
        for dimension, size in enumerate(sizes):
            wanted = f"== {size}" if isinstance(size, int) else "> 1"
            yield f"{name}.size({dimension}) {wanted}"
