"""`torch.func.functional_call`: a module whose parameters are other tensors during a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from minitorch2.bytecode.guards import DistinctObjects, SameObject
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource, Source
from minitorch2.bytecode.polyfills import functional_modules as polyfills
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.sequence import TupleVariable
from minitorch2.bytecode.trackers.torch_values.nn_module import ModuleVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles, inlines
from minitorch2.foundation.blocks import replacing

_CODE: Final = "function-transform"

inlines(torch.func.functional_call, polyfills.functional_call)
inlines(torch.func.stack_module_state, polyfills.stack_module_state)


@handles(polyfills.call_with)
def call_with(
    evaluator: Evaluator,
    module: VariableTracker,
    tensors: VariableTracker,
    args: VariableTracker,
    kwargs: VariableTracker,
    options: VariableTracker,
) -> VariableTracker:
    """`polyfills.call_with`"""
    if not isinstance(module, ModuleVariable) or module.value is MISSING or module.source is None:
        unsupported(_CODE, "functional_call of a module that the function itself makes")
    assert isinstance(tensors, DictVariable) and isinstance(args, TupleVariable)
    assert isinstance(kwargs, DictVariable)
    given = {key.as_constant(): value for key, value in tensors.pairs()}
    settings = options.as_constant()
    if settings["tie_weights"]:
        given |= _tied(evaluator.capture, module, given)
    places = _places(module.value)
    if given.keys() - places.keys() or (settings["strict"] and places.keys() - given.keys()):
        unsupported(_CODE, "functional_call with names that are not those of the module's tensors")
    named = {key.as_constant(): value for key, value in kwargs.pairs()}
    capture = evaluator.capture
    inner = {**capture.replaced, **{places[name]: value for name, value in given.items()}}
    with replacing(capture, "replaced", inner):
        return module.call(evaluator, args.realized(), named)


def _named_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _places(module: torch.nn.Module) -> dict[str, tuple[int, str]]:
    """Return, for the path of each tensor, the module that has it and its name there."""
    places = {}
    for path, _ in _named_tensors(module):
        owner, _, name = path.rpartition(".")
        places[path] = (id(module.get_submodule(owner)), name)
    return places


def _tied(
    capture: Capture, module: ModuleVariable, given: dict[str, VariableTracker]
) -> dict[str, VariableTracker]:
    """Complete the given tensors: all names of one tensor get the tensor given for one of them."""
    names: dict[int, list[str]] = {}
    for path, tensor in _named_tensors(module.value):
        names.setdefault(id(tensor), []).append(path)
    sources = [[_source(module, path) for path in paths] for paths in names.values()]
    for same in sources:
        for other in same[1:]:
            capture.add_guard(SameObject(other, same[0]))
    if len(sources) > 1:
        capture.add_guard(DistinctObjects(tuple(same[0] for same in sources)))
    tied = {}
    for paths in names.values():
        found = [given[path] for path in paths if path in given]
        if any(value is not found[0] for value in found):
            unsupported(_CODE, "functional_call with several tensors for one that is tied")
        tied.update(dict.fromkeys(paths, found[0]) if found else {})
    return tied


def _source(module: ModuleVariable, path: str) -> Source:
    """Return the source of one of a module's tensors."""
    assert module.source is not None
    *owners, name = path.split(".")
    source: Source = module.source
    owner: Any = module.value
    for part in owners:
        source, owner = ItemSource(AttributeSource(source, "_modules"), part), owner._modules[part]
    registry = "_parameters" if name in owner._parameters else "_buffers"
    return ItemSource(AttributeSource(source, registry), name)
