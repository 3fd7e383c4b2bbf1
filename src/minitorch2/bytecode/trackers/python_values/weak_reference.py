"""Weak references and proxies: calling a reference gives its object, or None when that has died."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

from minitorch2.bytecode.frames.lifetimes import SEES_DEATH
from minitorch2.bytecode.guards.sources import AppliedSource, CallSource
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import MISSING
from minitorch2.bytecode.trackers.interfaces import Capture, Evaluator, Residual
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.classes import constructs
from minitorch2.bytecode.trackers.python_values.constant import NONE, is_none


class WeakReferenceVariable(VariableTracker):
    """A `weakref.ref` or an instance of one of its subclasses in `weakref`.

    Args:
        capture: the attempt that it is evaluated in.
        value: the real one, if it is from outside.
        target, more: else, what it is made of: its object, and the further arguments.
        cls: its class.
    """

    def __init__(
        self,
        capture: Capture,
        value: Any = MISSING,
        target: VariableTracker | None = None,
        more: Arguments = (),
        cls: type = weakref.ref,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.capture, self.value, self.target, self.more = capture, value, target, more
        self.cls = cls if value is MISSING else type(value)

    def python_type(self) -> type:
        return self.cls

    def referent(self) -> VariableTracker:
        """Return the object that is referred to; None if it has died."""
        if self.target is None:
            return self._outside()
        if not is_held(self.capture.evaluator, self.target):
            unsupported(SEES_DEATH, "a weak reference to an object that may be dead")
        return self.target

    def _outside(self) -> VariableTracker:
        assert self.source is not None
        return self.capture.wrap(self.value(), CallSource(self.source))

    def hash_key(self) -> Hashable:
        """Return the key of its object: references to equal objects are equal."""
        target = self.referent()
        if is_none(target):
            unsupported("hash", "a weak reference to a dead object as a key")
        return ("weak", target.hash_key())

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        return self.referent()

    def refers_to(self) -> list[VariableTracker]:
        return [*self.more]

    def rebuild(self, residual: Residual) -> str:
        arguments = residual.arguments([self.referent(), *self.more], {})
        return f"{residual.reference(self.cls)}({arguments})"


def _make(
    evaluator: Evaluator, cls: type, target: VariableTracker, callback: VariableTracker, *key: Any
) -> VariableTracker:
    """``cls(target, callback, *key)``"""
    kind = target.python_type()
    if not kind.__weakrefoffset__:
        raise_observed(TypeError, f"cannot create weak reference to '{kind.__name__}' object")
    if target.source is None and not is_none(callback):
        unsupported(SEES_DEATH, "a weak reference with a callback, to an object that is new")
    evaluator.capture.sees_death |= target.source is None
    made = WeakReferenceVariable(evaluator.capture, MISSING, target, (callback, *key), cls)
    is_shared = cls is weakref.ref and is_none(callback)  # an object has one of these
    return vars(target).setdefault("weak_reference", made) if is_shared else made


constructs(weakref.KeyedRef)(lambda evaluator, *args: _make(evaluator, weakref.KeyedRef, *args))
constructs(weakref.ref)(
    lambda evaluator, target, callback=NONE: _make(evaluator, weakref.ref, target, callback)
)


# Proxies ------------------------------------------------------------------------------------------


def object_behind(proxy: Any) -> object:
    """Return the object of a weak proxy; None if it has died, or answers for others."""
    try:
        found = proxy.__reduce_ex__.__self__
    except (AttributeError, ReferenceError):
        return None
    return found if any(each is proxy for each in weakref.getweakrefs(found)) else None


class WeakProxyVariable(WeakReferenceVariable):
    """A `weakref.proxy` from outside: all but its class and its identity is the object's."""

    def _outside(self) -> VariableTracker:
        assert self.source is not None
        found, place = object_behind(self.value), self.capture.reference(object_behind)
        if found is None:
            unsupported("attribute", "a weak proxy whose object has died")
        return self.capture.wrap(found, AppliedSource(self.source, place))

    def hash_key(self) -> Hashable:
        raise_observed(TypeError, f"unhashable type: 'weakref.{self.cls.__name__}'")

    def truth(self, evaluator: Evaluator) -> bool:
        return operations.truth(evaluator, self.referent())

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        return self.referent().get_attribute(evaluator, name)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        self.referent().set_attribute(evaluator, name, value)

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        self.referent().delete_attribute(evaluator, name)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        if self.python_type() is weakref.ProxyType:
            raise_observed(TypeError, "'weakref.ProxyType' object is not callable")
        return self.referent().call(evaluator, args, kwargs)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a method of the object; an operator takes the objects of both operands."""
        if name not in _SPECIAL:
            return super().call_method(evaluator, name, args, kwargs)
        parts = (self, *args)
        operands = [p.referent() if isinstance(p, WeakProxyVariable) else p for p in parts]
        function, is_reflected = _SPECIAL[name]
        if is_reflected:
            operands.reverse()
        return evaluator.capture.wrap(function, None).call(evaluator, operands, kwargs)


_SPECIAL: Final[dict[str, tuple[Callable[..., Any], bool]]] = {
    **{n: (f, False) for n, f in vars(operator).items() if callable(f) and n.startswith("__")},
    **{f"__{f.__name__}__": (f, False) for f in (len, iter, next, reversed, str, divmod)},
    **{f"__r{name}__": (f, True) for name, f, _ in operations.BINARY.values()},
}
"""Special methods of proxies: the function that does it, and whether its operands are swapped."""


# Lifetimes ----------------------------------------------------------------------------------------

# CPython drops an object with the last reference to it, and capture does not count references. An
# object is known to be alive if it can be reached from the variables of the frames that are
# evaluated, or from a place outside that the captured code writes to. Any other may be dead or not.


def is_held(evaluator: Evaluator | None, wanted: VariableTracker) -> bool:
    """Return whether a value is known to be alive."""
    assert evaluator is not None, "references are made by code that is evaluated"
    effects, seen = evaluator.capture.side_effects, set[int]()
    outside = [*effects.values_outside()]
    path = [*map(str, wanted.source.path())] if wanted.source is not None else []
    if path and {str(each.source) for each in outside}.isdisjoint(path[1:]):
        return True  # nothing that leads to it from outside may have let go of it
    found = [*_variables(evaluator), *outside]
    while found:
        tracker = found.pop()
        if tracker is wanted:
            return True
        if id(tracker) not in seen:
            seen.add(id(tracker))
            found += tracker.refers_to()
            parts = effects.pending_attributes(tracker).values()
            found += [part for part in parts if isinstance(part, VariableTracker)]
    return False


def _variables(evaluator: Evaluator | None) -> Iterator[VariableTracker]:
    """Yield what the frames that are evaluated hold."""
    while evaluator is not None:
        yield from evaluator.stack
        yield from evaluator.locals.values()
        yield from evaluator.cells.values()
        yield from evaluator.handled
        if evaluator.result is not None:
            yield evaluator.result
        evaluator = evaluator.parent
