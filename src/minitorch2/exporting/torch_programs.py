"""Programs of `torch.export` as ours, and ours as theirs.

Both are a graph of aten operators with a signature. One becomes the other by a call: the program
runs as a module on the example, and that call is exported. So each side states sizes and writes in
its own way, and nothing of one signature is translated into the other::

    torch.export.ExportedProgram --(its graph in a module)--> minitorch2.export
    ExportedProgram              --(its graph in a module)--> torch.export.export
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, TypeGuard

import torch

from minitorch2.backends.torch_export import TorchProgram, exported_by_torch, varying
from minitorch2.errors import ExportError
from minitorch2.exporting.signature import Input, Signature
from minitorch2.foundation.generated_code import execute, new_file
from minitorch2.marks.dimensions import Dim
from minitorch2.native.torch_internals.pytree import tree_leaves, tree_unflatten

Call = tuple[torch.nn.Module, tuple[Any, ...], Mapping[str, Any], Any]
"""A module, its positional and keyword arguments, and `dynamic_shapes`."""


def is_torch_program(program: object) -> TypeGuard[TorchProgram]:
    """Return whether something is a program of `torch.export`."""
    return isinstance(program, TorchProgram)


# Theirs as ours


def call_of(program: TorchProgram) -> Call:
    """Return the call that a program of `torch.export` was made of, with its sizes.

    Raises:
        ExportError: it has no example, or it has inputs that are no tensors of a module.
    """
    if program.example_inputs is None:
        cause = "the program of torch.export has no example inputs"
        raise ExportError(cause, fix="set program.example_inputs = (args, kwargs)")
    args, kwargs = program.example_inputs
    module = _module_of(program)
    return module, tuple(args), kwargs, _shapes_of(program, args, kwargs)


def _module_of(program: TorchProgram) -> torch.nn.Module:
    """Return the graph of a program as a module, with its tensors under their own paths.

    Its forward is written around the graph, as this one for a graph that counts calls::

        def forward(self, *args, **kwargs):
            given = leaves((args, kwargs))
            outputs = graph(self._modules['score']._parameters['weight'], given[0], ...)
            self._buffers['calls'].copy_(outputs[0])
            return results(outputs[1:], structure)
    """
    module, places, arguments = torch.nn.Module(), dict[str, str](), list[str]()
    users = count()
    for spec in program.graph_signature.input_specs:
        kind, path = spec.kind.name, str(spec.target)
        if kind == "USER_INPUT":
            arguments.append(f"given[{next(users)}]")
        elif kind in _KINDS:
            is_kept = kind == "BUFFER" and spec.persistent is not False
            places[path] = _place(module, path, _tensor(program, path), is_kept)
            arguments.append(places[path])
        else:
            raise ExportError(f"the program of torch.export has an input of the kind {kind}")
    written = [places[path] for path in _written(program)]
    lines = [
        "def forward(self, *args, **kwargs):",
        "given = leaves((args, kwargs))",
        f"outputs = graph({', '.join(arguments)})",
        *(f"{place}.copy_(outputs[{i}])" for i, place in enumerate(written)),
        f"return results(outputs[{len(written)}:], structure)",
    ]
    names: dict[str, Any] = {
        "graph": program.graph_module.forward, "leaves": tree_leaves,
        "results": tree_unflatten, "structure": program.call_spec.out_spec,
    }  # fmt: skip
    # Not as generated code of this compiler, which capture would leave to Python.
    exec(compile("\n    ".join(lines), _FILE, "exec"), names)
    module.__class__ = type("TorchProgram", (torch.nn.Module,), {"forward": names["forward"]})
    return module


def _written(program: TorchProgram) -> Iterator[str]:
    """Yield the paths of the buffers that the graph's first outputs are written to."""
    for output in program.graph_signature.output_specs:
        kind = output.kind.name
        if kind == "BUFFER_MUTATION":
            yield str(output.target)
        elif kind != "USER_OUTPUT":
            raise ExportError(f"the program of torch.export has an output of the kind {kind}")


def _place(module: torch.nn.Module, path: str, tensor: torch.Tensor, is_kept: bool) -> str:
    """Register a tensor below a module; return the expression that loads it."""
    *parts, name = path.split(".")
    for part in parts:
        if part not in module._modules:
            module.add_module(part, torch.nn.Module())
        module = module.get_submodule(part)
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor, persistent=is_kept)
    kind = "_parameters" if name in module._parameters else "_buffers"
    return "".join(["self", *(f"._modules[{part!r}]" for part in parts), f".{kind}[{name!r}]"])


_FILE = "the program of torch.export"
_KINDS = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")


def _tensor(program: TorchProgram, path: str) -> torch.Tensor:
    found = program.state_dict.get(path, program.constants.get(path))
    if not isinstance(found, torch.Tensor):
        raise ExportError(f"the program of torch.export has no tensor {path}")
    return found


def _shapes_of(
    program: TorchProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `dynamic_shapes` for the sizes that vary in a program of `torch.export`."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    users = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    forms = iter([nodes[spec.arg.name].meta.get("val") for spec in users])
    named = {f"args_{i}": value for i, value in enumerate(args)} | dict(kwargs)
    return {name: _shapes(value, forms, program) for name, value in named.items()}


def _shapes(value: Any, forms: Iterator[Any], program: TorchProgram) -> Any:
    if isinstance(value, Mapping):
        return {key: _shapes(part, forms, program) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [_shapes(part, forms, program) for part in value]
    form = next(forms)
    if not isinstance(value, torch.Tensor):
        return None
    varies = {d: size for d, size in enumerate(form.shape) if not isinstance(size, int)}
    return {d: _dim(size, program) for d, size in varies.items()} or None


def _dim(size: Any, program: TorchProgram) -> Any:
    """Return the `Dim` of a symbol with limits; other sizes may vary, as their conditions allow."""
    limits = program.range_constraints.get(size.node.expr)
    if limits is None or not size.node.expr.is_Symbol or not limits.upper.is_Integer:
        return Dim.AUTO
    return Dim(f"size_{size}", min=max(2, int(limits.lower)), max=int(limits.upper))


# Ours as theirs


def as_torch_program(module: torch.nn.Module, signature: Signature) -> TorchProgram:
    """Return the program of `torch.export` of a program's module, on an example of zeros."""
    example = [_example(each, signature) for each in signature.of_kind("user")]
    args, kwargs = tree_unflatten(example, signature.arguments)
    marks = [_marks(each, signature) for each in signature.of_kind("user")]
    marked_args, marked_kwargs = tree_unflatten(marks, signature.arguments)
    names = [f"args_{i}" for i in range(len(args))]
    shapes = dict(zip(names, marked_args, strict=True)) | marked_kwargs
    return exported_by_torch(_with_names(module, names, [*kwargs]), tuple(args), kwargs, shapes)


def _with_names(
    module: torch.nn.Module, positional: list[str], keywords: list[str]
) -> torch.nn.Module:
    """Return the module with parameters that have names, which `torch.export` asks for."""
    bare = ["*", *keywords] if keywords else []
    given = ", ".join(f"{name}={name}" for name in keywords)
    text = (
        f"def forward({', '.join(['self', *positional, *bare])}):\n"
        f"    return run(self, {''.join(f'{name}, ' for name in positional)}{given})\n"
    )
    names: dict[str, Any] = {"run": type(module).forward}
    execute(text, new_file("export", "forward"), names)
    named: Callable[..., Any] = names["forward"]
    module.__class__ = type("ExportedModule", (type(module),), {"forward": named})
    return module


def _example(each: Input, signature: Signature) -> Any:
    if each.form is None:
        return each.value
    hints = {name: symbol.hint for name, symbol in signature.symbols.items()}
    shape = [n if isinstance(n, int) else eval(n, dict(hints)) for n in each.form.shape]
    return torch.zeros(shape, dtype=each.form.dtype, device=each.form.device)


def _marks(each: Input, signature: Signature) -> Any:
    if each.form is None:
        return None
    sizes = ((d, n) for d, n in enumerate(each.form.shape) if not isinstance(n, int))
    return {d: _mark(signature, str(n)) for d, n in sizes} or None


def _mark(signature: Signature, name: str) -> Any:
    symbol = signature.symbols.get(name)
    limits = {} if symbol is None else {"min": symbol.low, "max": symbol.high}
    return varying({side: n for side, n in limits.items() if n != math.inf})
