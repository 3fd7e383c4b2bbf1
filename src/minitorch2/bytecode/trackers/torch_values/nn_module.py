"""`torch.nn.Module` instances: parameters are inputs of the graph, `forward` is inlined.

A module is an ordinary object whose ``__getattr__`` looks into three dicts, and whose call is
``forward`` if no hooks are set. Both rules are written out here. So a module costs one guard for
its class, one for its hooks, and the guards of the attributes that the program reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from minitorch2.bytecode.guards import Check, Guard, KeyMatch, SourceGuard, id_match
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource, Source
from minitorch2.bytecode.polyfills.torch_functions import next_hook_number
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING, class_function, class_lookup
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.observed import UninitializedError, raise_observed
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.effects import is_random
from minitorch2.native.cpython.guard_machine import Op

REGISTRIES: Final = ("_parameters", "_buffers", "_modules")
MODULE_CALL: Final = torch.nn.Module.__call__
HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS: Final = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
    "_global_backward_pre_hooks",
)  # fmt: skip


@dataclass(frozen=True)
class NoHooks(SourceGuard):
    """A module without hooks."""

    KIND = "MODULE_HOOKS"

    def sources(self) -> tuple[Source, ...]:
        return (AttributeSource(self.source, "__dict__"),)

    def checks(self) -> Iterable[Check]:
        return [Check(hook, Op.EMPTY, "empty", hook) for hook in HOOKS]


def hooks_of_all_modules() -> tuple[object, ...]:
    """Return the numbers, never used again, of the hooks that all modules have."""
    names = vars(torch.nn.modules.module)
    if not names["_has_any_global_hook"]():  # the quick answer, which each call asks for
        return ()
    return tuple(key for name in GLOBAL_HOOKS for key in names[name])


@dataclass(frozen=True)
class GlobalHooks(Guard):
    """All modules have these hooks, and no others."""

    KIND = "GLOBAL_MODULE_HOOKS"
    hooks: tuple[object, ...]

    def checks(self) -> Iterable[Check]:
        return (Check("hooks of all modules", Op.STATE, self.hooks, hooks_of_all_modules),)


def _changes_hooks_of_all(evaluator: Evaluator) -> bool:
    """Return whether all modules have hooks, or the captured code sets such."""
    capture, names = evaluator.capture, vars(torch.nn.modules.module)
    known = (capture.known_object(names[name]) for name in GLOBAL_HOOKS)
    changed = (each is not None and capture.side_effects.changes(each) for each in known)
    return bool(hooks_of_all_modules()) or any(changed)


class HookNumberVariable(VariableTracker):
    """The number of a hook that the captured code sets: taken when the program runs."""

    def python_type(self) -> type:
        return int

    def hash_key(self) -> Hashable:
        return ("hook", id(self))

    def reconstruct(self, residual: Residual) -> str:
        return residual.bind(f"{residual.reference(next_hook_number)}()", "number")


handles(next_hook_number)(lambda evaluator: HookNumberVariable())


class ModuleVariable(ObjectVariable):
    """An `nn.Module`."""

    value: torch.nn.Module

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if evaluator.capture.replaced and self.value is not MISSING:
            replaced = self._replaced(evaluator, name)
            if replaced is not None:
                return replaced
        return super().get_attribute(evaluator, name)

    def _replaced(self, evaluator: Evaluator, name: str) -> VariableTracker | None:
        """Return the value that `torch.func.functional_call` has put in a tensor's place."""
        replaced = evaluator.capture.replaced
        if (id(self.value), name) in replaced:
            return replaced[id(self.value), name]
        if all(owner != id(self.value) for owner, _ in replaced):
            return None
        if name in ("_parameters", "_buffers"):
            unsupported("function-transform", f"{name} of a module during functional_call")
        if name == "_flat_weights" and isinstance(self.value, torch.nn.RNNBase):
            names = self.value._flat_weights_names
            return ListVariable([self.get_attribute(evaluator, name) for name in names])
        return None

    def missing_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """Look it up as ``nn.Module.__getattr__`` does, then by a user's own ``__getattr__``."""
        changed = self._registered_here(evaluator, name)
        if changed is not None:
            return changed
        if self.value is MISSING:
            return self._raise_absent(name)
        attributes = self.instance_dict()
        assert self.source is not None
        for registry in REGISTRIES:
            entries = attributes.get(registry, {})
            if isinstance(entries, dict) and name in entries:
                source = ItemSource(AttributeSource(self.source, registry), name)
                return evaluator.capture.wrap(entries[name], source)
        if class_lookup(self.cls, "__getattr__")[0] is not torch.nn.Module:
            return super().missing_attribute(evaluator, name)
        for registry in REGISTRIES:
            guard = KeyMatch(AttributeSource(self.source, registry), name, False)
            self.guards |= {evaluator.capture.add_guard(guard)}
        message = f"{self.cls.__name__!r} object has no attribute {name!r}"
        return raise_observed(AttributeError, message)

    def _registered_here(self, evaluator: Evaluator, name: str) -> VariableTracker | None:
        """Return the value that the captured code itself has put into a module's registry."""
        for registry in REGISTRIES:
            entries = self._changed_dict(evaluator, registry)
            found = None if entries is None else entries.lookup_name(name)
            if found is not None:
                return found
        return None

    def _changed_dict(self, evaluator: Evaluator, name: str) -> DictVariable | None:
        """Return a registry or dict of hooks that the captured code has made or changed."""
        effects = evaluator.capture.side_effects
        found = effects.load_attribute(self, name)
        if found is None and self.source is not None:
            known = evaluator.capture.known(self.attribute_source(name))
            found = known if known is not None and effects.changes(known) else None
        return found if isinstance(found, DictVariable) else None

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        found_in, custom = class_lookup(self.cls, "__call__")
        if custom is not MODULE_CALL:
            method = class_function(evaluator, found_in, "__call__", custom)
            return method.call(evaluator, [self, *args], kwargs)
        place = AttributeSource(evaluator.capture.reference(torch.nn.Module), "__call__")
        evaluator.capture.add_guard(id_match(place, custom, evaluator.source_line()))
        evaluator.capture.add_guard(GlobalHooks(hooks_of_all_modules()))
        if isinstance(self.value, LazyModuleMixin) and self.value.has_uninitialized_params():
            raise UninitializedError(self._initializer(evaluator, args))
        if self._has_hooks(evaluator):
            found_in, implementation = class_lookup(self.cls, "_call_impl")
            function = class_function(evaluator, found_in, "_call_impl", implementation)
            return function.call(evaluator, [self, *args], kwargs)
        if self.source is not None:
            if self.value._compiled_call_impl is not None:
                unsupported("compiled-module", "a module that was compiled with torch.compile")
            guard = NoHooks(self.source, user_line=evaluator.source_line())
            self.guards |= {evaluator.capture.add_guard(guard)}
        return self.get_attribute(evaluator, "forward").call(evaluator, args, kwargs)

    def _has_hooks(self, evaluator: Evaluator) -> bool:
        """Return whether the module has hooks now, the captured code's own among them."""
        dicts = {hook: self._changed_dict(evaluator, hook) for hook in HOOKS}
        return _changes_hooks_of_all(evaluator) or any(
            bool(self.instance_dict().get(hook) if entries is None else entries.entries)
            for hook, entries in dicts.items()
        )

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if (id(self.value), name) in evaluator.capture.replaced:
            unsupported("function-transform", f"write to {name!r} during functional_call")
        found_in, setter = class_lookup(self.cls, "__setattr__")
        if self.value is MISSING and isinstance(setter, FunctionType):
            # Made by the captured code: its registries are, too, so the rule itself can be inlined.
            function = class_function(evaluator, found_in, "__setattr__", setter)
            function.call(evaluator, [self, ConstantVariable(name), value], {})
        else:
            super().set_attribute(evaluator, name, value)

    def truth(self, evaluator: Evaluator) -> bool:
        if class_lookup(self.cls, "__len__")[1] is MISSING:
            return True
        return super().truth(evaluator)

    def plain_set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        """Record a write, which goes through ``nn.Module.__setattr__`` when it is applied.

        For a module made here that method has been inlined, so its writes are complete.
        """
        if self.source is not None and value.python_type() in (int, float):
            counted = AttributeSource(self.source, name)
            evaluator.capture.sizes.history.counted.add(counted)
        if self.value is MISSING and class_lookup(self.cls, name)[1] is MISSING:
            evaluator.capture.side_effects.store_attribute(self, name, value, raw=True)
            return
        parameters = self.instance_dict().get("_parameters", {})
        if isinstance(parameters, dict) and name in parameters:
            if operations.is_same(value, self.get_attribute(evaluator, name)):
                return  # such as `self.weight += 1`
            unsupported("parameter-write", f"assignment to the parameter {name!r} of a module")
        if isinstance(value, ModuleVariable) and self.value is not MISSING:
            unsupported("module-write", f"assignment of a module to the attribute {name!r}")
        super().plain_set_attribute(evaluator, name, value)

    def shadows_fallback(self, name: str) -> bool:
        """``nn.Module.__setattr__`` keeps a name in one place: either registered or plain."""
        registries: list[Any] = [self.instance_dict().get(registry, ()) for registry in REGISTRIES]
        return not any(name in registry for registry in registries)

    def _initializer(self, evaluator: Evaluator, args: Arguments) -> Callable[[], bool]:
        """Return what makes the parameters of a lazy module, or returns False.

        PyTorch's own need the sizes of one argument. They draw random numbers, so the graph may
        not have drawn any before them.
        """
        module: Any = self.value
        nodes = evaluator.capture.root.nodes
        rule = type(module).initialize_parameters.__module__
        fake = getattr(args[0], "fake", None) if len(args) == 1 else None
        is_known = rule.startswith("torch.nn.modules") and not hooks_of_all_modules()
        if fake is None or not is_known or any(map(is_random, nodes)):
            return lambda: False
        sizes = [size if isinstance(size, int) else size.node.hint for size in fake.shape]

        def initialize() -> bool:
            with suppress(Exception):  # Python's call raises it once more, at the user's line
                module._infer_parameters(module, (torch.empty(sizes, device="meta"),))
                return True
            return False

        return initialize
