"""`export`: a call of a program as a graph that needs neither the program nor Python objects.

    program ::= graph of aten operators, signature, tensors

The graph is functional: parameters and buffers are inputs, and what the program writes is output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from minitorch2.errors import ExportError
from minitorch2.exporting.capturing import Call, Captured, capture_call
from minitorch2.exporting.dimensions import Relation, Shapes, mark_inputs
from minitorch2.exporting.explicit_sizes import make_sizes_explicit
from minitorch2.exporting.lowering import Lowered, Roles
from minitorch2.exporting.running import Runner
from minitorch2.exporting.signature import (
    Condition,
    Input,
    InputKind,
    Signature,
    Symbol,
)
from minitorch2.exporting.torch_programs import (
    TorchProgram,
    as_torch_program,
    call_of,
    is_torch_program,
)
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node
from minitorch2.native.torch_internals.pytree import TreeSpec, tree_flatten, tree_leaves


class ExportedProgram:
    """A graph with its signature and the tensors of its module.

    Attributes:
        graph_module: the graph as a callable of its inputs.
        signature: what each input and output means, the sizes that vary, and the conditions.
        tensors: parameters, buffers and constants by their paths; shared with the module.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        signature: Signature,
        tensors: Mapping[str, torch.Tensor],
    ) -> None:
        self.graph_module = graph_module
        self.signature = signature
        self.tensors = dict(tensors)
        self._runner = Runner(signature, lambda inputs: graph_module(*inputs), self.tensors)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, without gradients.

        Raises:
            ExportError: an argument has another structure, dtype, size or value than it serves, or
                is differentiated.
        """
        return self._runner(args, kwargs)

    run = __call__

    @property
    def code(self) -> str:
        """The graph as Python text: ``forward(self, *inputs)`` in the order of the signature."""
        return self.graph_module.code

    @property
    def state_dict(self) -> dict[str, torch.Tensor]:
        """The parameters and the persistent buffers, by their paths."""
        kept = (i for i in self.signature.of_kind("parameter", "buffer") if i.persistent)
        return {each.target: self.tensors[each.target] for each in kept}

    def module(self) -> torch.nn.Module:
        """Return a module that runs the program; its state dict is the one of the original.

        It computes without gradients. Its tensors are the program's own.
        """
        return ExportedModule(self.signature, self.tensors, self._runner)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to one file, which `minitorch2.load` reads without the model's source.

        Raises:
            ExportError: it holds a function or a value that a file cannot hold.
        """
        # Deferred: only a program that is saved needs the file format.
        from minitorch2.exporting.program_file import save_program

        save_program(self, path)

    def to_torch(self) -> TorchProgram:
        """Return the same program as one of `torch.export`, with the tensors of this one.

        The way back is `minitorch2.export` of such a program.

        Raises:
            Exception: what `torch.export` raises if it cannot capture the program's call.
        """
        return as_torch_program(self.module(), self.signature)

    def __str__(self) -> str:
        return f"{self.signature}\n\n{self.code}"

    __repr__ = __str__


class ExportedModule(torch.nn.Module):
    """An exported program as a module, with parameters and buffers under their own paths."""

    def __init__(
        self, signature: Signature, tensors: Mapping[str, torch.Tensor], runner: Runner
    ) -> None:
        super().__init__()
        self._runner = runner
        self._places: dict[str, tuple[torch.nn.Module, str]] = {}
        self._constants = {i.target: tensors[i.target] for i in signature.of_kind("constant")}
        for each in signature.of_kind("parameter", "buffer"):
            *path, name = each.target.split(".")
            owner: torch.nn.Module = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner.get_submodule(part)
            tensor = tensors[each.target]
            if each.kind == "parameter":
                owner.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
            else:
                owner.register_buffer(name, tensor, persistent=each.persistent)
            self._places[each.target] = owner, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on the module's present tensors."""
        held = {target: getattr(owner, name) for target, (owner, name) in self._places.items()}
        return self._runner(args, kwargs, {**self._constants, **held})


def export(
    program: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Shapes = None,
) -> ExportedProgram:
    """Capture a call of a function or module as one graph of aten operators.

    The result computes what the call computes, without gradients: in the module's present mode
    (training or not), and with the present values of all Python objects.

    Args:
        program: a function, method, module or other callable, or a program of `torch.export`, whose
            example and sizes stand in for the other arguments.
        args: the positional arguments of an example; tensors tell dtypes, devices and sizes.
        kwargs: its keyword arguments. Arguments that are no tensors are constants of the program.
        dynamic_shapes: the dimensions that vary, by the name of the parameter:
            ``{"x": {0: Dim("batch", max=64)}}``, or one entry for each argument. A size is a
            `Dim`, which must vary, ``2 * Dim(...)``, ``Dim.AUTO``, which may vary, or a number.

    Raises:
        GraphBreakError: the program cannot be one graph; the message names the line and a remedy.
        DynamicSizeError: it fixes a size that is declared as a `Dim`, with the line and the fix.
        ExportError: `dynamic_shapes` or the arguments do not fit, or no graph can be exported.
    """
    _check_call(program, args, kwargs)
    if is_torch_program(program):
        program, args, kwargs, dynamic_shapes = call_of(program)
    call = Call.of(program, args, kwargs or {})
    relations = mark_inputs(dict(zip(call.names, call.values, strict=True)), dynamic_shapes)
    found: list[_Assembly] = []

    def assemble(captured: Captured) -> None:
        found.append(_Assembly(call, Lowered(captured, _roles(call))))

    results = capture_call(call, assemble)
    return found[0].program(results, relations)


def _check_call(program: Any, args: Any, kwargs: Any) -> None:
    """Refuse a program, arguments or keyword arguments of another type than `export` takes."""
    if isinstance(program, type):
        name = program.__name__
        raise ExportError(f"{name} is a class", code="export", fix=f"give an object: {name}(...)")
    if not callable(program) and not is_torch_program(program):
        cause = f"the program is a {type(program).__name__}"
        raise ExportError(cause, code="export", fix="give a function or a module")
    if not isinstance(args, tuple):
        cause = f"args is a {type(args).__name__}"
        raise ExportError(cause, code="export", fix="give a tuple: (x,)")
    if not isinstance(kwargs, Mapping | None):
        cause = f"kwargs is a {type(kwargs).__name__}"
        raise ExportError(cause, code="export", fix='give a dict: {"name": value}')


def _roles(call: Call) -> Roles:
    """Return the meaning of each tensor of the model, and of the call."""
    roles: dict[int, tuple[InputKind, str]] = {}
    for kind, target, tensor in _tensors_of(call):
        roles.setdefault(id(tensor), (kind, target))
    for name, leaf in _named_leaves(call):
        if isinstance(leaf, torch.Tensor):
            roles.setdefault(id(leaf), ("user", name))
    return roles


def _tensors_of(call: Call) -> Iterator[tuple[InputKind, str, torch.Tensor]]:
    """Yield the parameters and buffers of the program's module, each under all of its paths."""
    owner = getattr(call.program, "__self__", call.program)
    if isinstance(owner, torch.nn.Module):
        for name, parameter in owner.named_parameters(remove_duplicate=False):
            yield "parameter", name, parameter
        for name, buffer in owner.named_buffers(remove_duplicate=False):
            yield "buffer", name, buffer


def _named_leaves(call: Call) -> list[tuple[str, Any]]:
    """Return the leaves of the arguments with the user's words for them."""
    named = []
    for name, value in zip(call.names, call.values, strict=True):
        leaves = tree_leaves(value)
        is_leaf = len(leaves) == 1 and leaves[0] is value
        for place, leaf in enumerate(leaves):
            named.append((name if is_leaf else f"{name}.{place}", leaf))
    return named


class _Assembly:
    """The parts of a program, which are put together while the sizes are known."""

    def __init__(self, call: Call, lowered: Lowered) -> None:
        self.call = call
        self.lowered = lowered
        self.leaves = _named_leaves(call)
        of_nodes = lowered.inputs()
        pairs = [*self._own_inputs(of_nodes), *self._user_inputs(of_nodes)]
        places = {node: place for place, (node, _) in enumerate(pairs) if node is not None}
        old = lowered.graph.placeholders
        self.outputs = tuple(
            replace(o, target=places[old[o.target]]) if o.kind == "mutation" else o
            for o in lowered.outputs
        )
        names = {node: _name_of(each) for node, each in pairs if node is not None}
        self.graph = make_sizes_explicit(lowered.graph, names, lowered.sizes)
        final = iter(node.name for node in self.graph.placeholders)
        self.inputs = [replace(i, name="" if n is None else next(final)) for n, i in pairs]

    def _own_inputs(self, of_nodes: Mapping[Node, Input]) -> list[tuple[Node | None, Input]]:
        """Return parameters, buffers and constants, those that are not read included."""
        read = {i.target: (n, i) for n, i in of_nodes.items() if i.kind != "user"}
        found: list[tuple[Node | None, Input]] = []
        for kind, target, tensor in _tensors_of(self.call):
            self.lowered.tensors[target] = tensor
            form = self.lowered.form_of(tensor, tensor)
            found.append(read.pop(target, (None, Input(kind, "", target, form))))
        return [*found, *read.values()]

    def _user_inputs(self, of_nodes: Mapping[Node, Input]) -> list[tuple[Node | None, Input]]:
        """Return all of the user's leaves in order, with the placeholders of those that are read.

        A tensor that is given twice is read where it comes first.
        """
        by_leaf = {
            id(example): node
            for node, example in zip(of_nodes, self.lowered.examples, strict=True)
            if of_nodes[node].kind == "user"
        }
        found: list[tuple[Node | None, Input]] = []
        for name, leaf in self.leaves:
            node = by_leaf.pop(id(leaf), None)
            if node is not None:
                found.append((node, replace(of_nodes[node], target=name)))
            elif isinstance(leaf, torch.Tensor):
                form = next(i.form for _, i in found if i.target == self._first_name(leaf))
                found.append((None, Input("user", "", name, form)))
            else:
                found.append((None, Input("user", "", name, value=leaf)))
        return found

    def _first_name(self, tensor: torch.Tensor) -> str:
        return next(name for name, leaf in self.leaves if leaf is tensor)

    def program(self, results: TreeSpec, relations: Sequence[Relation]) -> ExportedProgram:
        """Return the program; all conditions on sizes are known now."""
        symbols = self._symbols()
        shown = {name: symbol.shown for name, symbol in symbols.items()}
        sizes = self.lowered.sizes
        conditions = [
            *(() if sizes is None else sizes.conditions(shown)),
            *(self._condition(relation, shown) for relation in relations),
        ]
        positional = self.call.positional
        names, values = self.call.names[positional:], self.call.values[positional:]
        arguments = self.call.values[:positional], dict(zip(names, values, strict=True))
        signature = Signature(
            tuple(self._with_persistence(each) for each in self.inputs),
            self.outputs,
            symbols,
            tuple(conditions),
            tree_flatten(arguments)[1],
            results,
        )
        return ExportedProgram(GraphModule(self.graph), signature, self.lowered.tensors)

    def _symbols(self) -> dict[str, Symbol]:
        found: dict[str, Symbol] = {}
        for place, each in enumerate(self.inputs):
            for dimension, size in enumerate(each.form.shape if each.form else ()):
                if isinstance(size, str) and size not in found:
                    where, source = f"{each.target}.shape[{dimension}]", (place, dimension)
                    sizes = self.lowered.sizes
                    symbol = None if sizes is None else sizes.symbol(size, source, where)
                    if symbol is not None:
                        found[size] = symbol
        return found

    def _condition(self, relation: Relation, shown: Mapping[str, str]) -> Condition:
        """Return a relation that the user has stated, as a condition."""
        place = next(i for i, (_, leaf) in enumerate(self.leaves) if leaf is relation.tensor)
        form = self.inputs[len(self.inputs) - len(self.leaves) + place].form
        assert form is not None
        size = form.shape[relation.dimension]
        root = next((n for n, words in shown.items() if words == relation.dim.name), None)
        if root is None:
            raise ExportError(
                f"no dimension is declared as {relation.dim.name}, and one as {relation}",
                code="export",
                fix=f"declare the dimension itself as Dim({relation.dim.name!r})",
            )
        text = f"{size} == {relation.factor} * {root}"
        return Condition(text, f"{shown.get(str(size), size)} == {relation}")

    def _with_persistence(self, each: Input) -> Input:
        owner: Any = getattr(self.call.program, "__self__", self.call.program)
        if each.kind != "buffer":
            return each
        path, _, name = each.target.rpartition(".")
        kept = name not in owner.get_submodule(path)._non_persistent_buffers_set
        return replace(each, persistent=kept)


def _name_of(each: Input) -> str:
    prefix = "" if each.kind == "user" else f"{each.kind[0]}_"
    return prefix + _identifier(each.target)


def _identifier(words: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in words)


__all__ = ["ExportedModule", "ExportedProgram", "export"]
