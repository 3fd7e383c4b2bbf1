"""Side effects of the captured code: recorded while capturing, applied after the graph.

Grammar::

    effect ::= owner.name = value | del owner.name         attribute of an object (old or new)
             | function(tensor)                            such as torch.Tensor.retain_grad
             | mutate(container)                           a list, dict or set that existed before
             | global[namespace].name = value | del        a global variable
             | cell = value                                a closure variable
             | function(values)                            a call of C code, such as a warning

Reads see pending writes. Several writes to one place are one effect, kept where the first one was.
Effects on objects that nothing outside can see are never emitted: an object made while capturing is
built in residual code only if a live value refers to it. PyTorch 2 paper, section 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import torch

from minitorch2.bytecode.trackers.base import Arguments, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Residual
from minitorch2.foundation.blocks import replacing
from minitorch2.graph.scope import is_name


class Deleted:
    """The value of an attribute or a global whose deletion is pending."""

    def __repr__(self) -> str:
        return "DELETED"


DELETED: Final = Deleted()

Pending = VariableTracker | Deleted


@dataclass
class Effect:
    """One place that the captured code changes; subclasses say which."""

    def owner(self) -> VariableTracker | None:
        """Return the object that the place belongs to; None if it is always visible."""
        return None

    def value(self) -> VariableTracker | None:
        """Return the value that the place will hold; None if it is not one value."""
        return None

    def variable_name(self) -> str | None:
        """Return the name of the global or closure variable that changes; None for no variable."""
        return None

    def emit(self, residual: Residual) -> None:
        """Write the statements; all values have names by then."""
        raise NotImplementedError

    def prepare(self, residual: Residual) -> None:
        """Give names to everything that `emit` will mention, before any place changes."""
        for tracker in (self.owner(), self.value()):
            if tracker is not None:
                residual.name_for(tracker)


@dataclass
class AttributeEffect(Effect):
    """``owner.name = value`` or ``del owner.name``."""

    target: VariableTracker
    name: str
    pending: Pending
    hide_setter: bool = False

    def owner(self) -> VariableTracker:
        return self.target

    def value(self) -> VariableTracker | None:
        return None if isinstance(self.pending, Deleted) else self.pending

    def emit(self, residual: Residual) -> None:
        target = residual.name_for(self.target)
        if isinstance(self.pending, Deleted):
            deleter = object.__delattr__ if self.hide_setter else delattr
            function = residual.reference(deleter, deleter.__qualname__)
            residual.emit(f"{function}({target}, {self.name!r})")
        elif self.hide_setter or not is_name(self.name):
            setter = object.__setattr__ if self.hide_setter else setattr
            function = residual.reference(setter, setter.__qualname__)
            residual.emit(f"{function}({target}, {self.name!r}, {residual.name_for(self.pending)})")
        else:
            residual.emit(f"{target}.{self.name} = {residual.name_for(self.pending)}")


@dataclass
class TensorEffect(Effect):
    """``function(tensor)``, which changes the tensor object."""

    function: Callable[[torch.Tensor], object]
    tensor: VariableTracker

    def owner(self) -> VariableTracker:
        return self.tensor

    def emit(self, residual: Residual) -> None:
        function = residual.reference(self.function, self.function.__name__)
        residual.emit(f"{function}({residual.name_for(self.tensor)})")


@dataclass
class ContainerEffect(Effect):
    """A list, dict or set that came from outside gets its final contents, in place."""

    container: VariableTracker

    def owner(self) -> VariableTracker:
        return self.container

    def prepare(self, residual: Residual) -> None:
        self._statements = self.container.mutation(residual, residual.name_for(self.container))

    def emit(self, residual: Residual) -> None:
        for statement in self._statements:
            residual.emit(statement)


@dataclass
class GlobalEffect(Effect):
    """A write to a global variable, in this module or, by inlining, in another one."""

    namespace: dict[str, object]
    name: str
    pending: Pending

    def variable_name(self) -> str:
        return self.name

    def value(self) -> VariableTracker | None:
        return None if isinstance(self.pending, Deleted) else self.pending

    def emit(self, residual: Residual) -> None:
        place = residual.global_place(self.namespace, self.name)
        if isinstance(self.pending, Deleted):
            residual.emit(f"del {place}")
        else:
            residual.emit(f"{place} = {residual.name_for(self.pending)}")


@dataclass
class CallEffect(Effect):
    """``function(*args)``, called for what it does outside; each call is an effect of its own."""

    function: Callable[..., object]
    args: Sequence[VariableTracker]
    line: int

    def prepare(self, residual: Residual) -> None:
        self._call = f"{residual.reference(self.function)}({residual.arguments(self.args, {})})"

    def emit(self, residual: Residual) -> None:
        around, residual.line = residual.line, self.line
        residual.emit(self._call)
        residual.line = around


class StartedGenerator(VariableTracker):
    """A generator that began to run while capturing, as the effects know it."""

    @property
    def finished(self) -> bool:
        """True if it has returned or raised."""
        raise NotImplementedError

    @property
    def function_name(self) -> str:
        """The name of its function."""
        raise NotImplementedError

    def may_clean_up(self) -> bool:
        """Return whether dropping it now may run code of a ``finally`` or ``with``."""
        raise NotImplementedError

    def needs_cleanup(self) -> bool:
        """Return whether dropping it now runs code of a ``finally`` or ``with``."""
        raise NotImplementedError


@dataclass
class SideEffects:
    """The pending effects of one capture.

    Attributes:
        writes: the number of writes, repeated ones too. Code that is recorded apart may write to
            the objects that it makes.
        effects: the pending effects by their places, in the order of first writes.
    """

    writes: int = 0
    effects: dict[object, Effect] = field(default_factory=dict)
    _apart_since: int | None = None
    _classes: dict[str, dict[type, VariableTracker]] = field(default_factory=dict)
    _new: dict[int, VariableTracker] = field(default_factory=dict)
    _generators: list[tuple[StartedGenerator, int]] = field(default_factory=list)
    _own_generators: list[StartedGenerator] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.effects)

    # Objects -------------------------------------------------------------------------------------

    def new_object(self, tracker: VariableTracker) -> None:
        """Note an object that the captured code makes: unseen unless a live value refers to it."""
        self._new[id(tracker)] = tracker

    def apart(self) -> AbstractContextManager[object]:
        """Record the program apart inside of the block."""
        return replacing(self, "_apart_since", next(VariableTracker.births))

    def _count(self, owner: VariableTracker) -> None:
        if not (self.is_new(owner) and self._is_made_apart(owner)):
            self.writes += 1

    def _is_made_apart(self, tracker: VariableTracker) -> bool:
        return self._apart_since is not None and tracker.birth > self._apart_since

    def add(self, effect: Effect) -> None:
        """Record an effect on a place that no later read asks about."""
        self.writes += 1
        self.effects["call", id(effect)] = effect

    def change(self, place: object, effect: Effect) -> None:
        """Record a change of a place; the effect tells which value the place has at the end."""
        owner = effect.owner()
        if owner is None:
            self.writes += 1
        else:
            self._count(owner)
        self.effects.setdefault(place, effect)

    def begin(self, place: object, effect: Effect) -> None:
        """Record how a new object gets its contents when it is made: no write of the program."""
        self.effects[place] = effect

    def is_new(self, tracker: VariableTracker) -> bool:
        """Return whether the captured code made the object."""
        return id(tracker) in self._new

    def complete(self, tracker: VariableTracker, residual: Residual) -> None:
        """Give a new object its attributes as soon as it is made: it will be asked for its hash."""
        if self._new.pop(id(tracker), None) is None:
            return
        residual.name_for(tracker)
        with residual.writing(residual.loads):
            for key, effect in list(self.effects.items()):
                if effect.owner() is tracker:
                    del self.effects[key]
                    effect.prepare(residual)
                    effect.emit(residual)

    # Attributes ----------------------------------------------------------------------------------

    def store_attribute(
        self, owner: VariableTracker, name: str, value: VariableTracker, *, raw: bool = False
    ) -> None:
        """``owner.name = value``; `raw` bypasses the class's ``__setattr__`` when it is applied."""
        self._attribute(owner, name, value, raw)

    def delete_attribute(
        self, owner: VariableTracker, name: str, *, existed: bool, raw: bool = False
    ) -> None:
        """``del owner.name``; the caller has checked that the attribute exists.

        Args:
            existed: whether it did before the captured code began.
            raw: whether to bypass the class's ``__delattr__``.
        """
        if existed:
            self._attribute(owner, name, DELETED, raw)
        else:
            self.effects.pop(("attribute", id(owner), name), None)

    def load_attribute(self, owner: VariableTracker, name: str) -> Pending | None:
        """Return the pending value, DELETED, or None when nothing is pending."""
        effect = self.effects.get(("attribute", id(owner), name))
        return effect.pending if isinstance(effect, AttributeEffect) else None

    def pending_attributes(self, owner: VariableTracker) -> dict[str, Pending]:
        """Return all pending attributes of one object, in the order of first writes."""
        return {
            effect.name: effect.pending
            for effect in self.effects.values()
            if isinstance(effect, AttributeEffect) and effect.target is owner
        }

    def class_written(self, name: str, cls: type, tracker: VariableTracker) -> None:
        """Say that an attribute of a class changes, which its instances and subclasses see."""
        self._classes.setdefault(name, {})[cls] = tracker

    def written_classes(self, name: str) -> Mapping[type, VariableTracker]:
        """Return the classes whose attribute of a name has changed, with their trackers."""
        return self._classes.get(name, {})

    def _attribute(self, owner: VariableTracker, name: str, value: Pending, raw: bool) -> None:
        self._count(owner)
        effect = self.effects.get(("attribute", id(owner), name))
        if isinstance(effect, AttributeEffect):
            effect.pending = value
        else:
            self.effects["attribute", id(owner), name] = AttributeEffect(owner, name, value, raw)

    # Containers ----------------------------------------------------------------------------------

    def mutated(self, container: VariableTracker) -> None:
        """Say that a list, dict or set changes; contents are read from the tracker at the end."""
        if container.source is not None or self.is_new(container):
            self._count(container)
            self.effects.setdefault(("container", id(container)), ContainerEffect(container))
        elif self._apart_since is not None and not self._is_made_apart(container):
            self.writes += 1

    def changes(self, container: VariableTracker) -> bool:
        """Return whether a change of a container is pending."""
        return ("container", id(container)) in self.effects

    # Calls ---------------------------------------------------------------------------------------

    def call(self, function: Callable[..., object], args: Arguments, line: int) -> None:
        """Let residual code call a function that gives nothing, at a line of the frame's own."""
        self.writes += 1
        self.effects["call", self.writes] = CallEffect(function, args, line)

    # Globals -------------------------------------------------------------------------------------

    def store_global(self, namespace: dict[str, object], name: str, value: Pending) -> None:
        """``global name; name = value`` in the module whose globals are `namespace`."""
        self.writes += 1
        key = ("global", id(namespace), name)
        if isinstance(value, Deleted) and name not in namespace:
            self.effects.pop(key, None)
            return
        effect = self.effects.get(key)
        if isinstance(effect, GlobalEffect):
            effect.pending = value
        else:
            self.effects[key] = GlobalEffect(namespace, name, value)

    def load_global(self, namespace: dict[str, object], name: str) -> Pending | None:
        """Return the pending value, DELETED, or None when nothing is pending."""
        effect = self.effects.get(("global", id(namespace), name))
        return effect.pending if isinstance(effect, GlobalEffect) else None

    # All effects ---------------------------------------------------------------------------------

    def changed_objects(self) -> Iterator[VariableTracker]:
        """Yield objects from outside that pending effects change."""
        for effect in self.effects.values():
            owner = effect.owner()
            if owner is not None and owner.source is not None:
                yield owner

    def values_outside(self) -> Iterator[VariableTracker]:
        """Yield what places outside, and containers from outside, will hold."""
        for effect in self.effects.values():
            owner, value = effect.owner(), effect.value()
            if owner is None or not self.is_new(owner):
                yield from (part for part in (owner, value) if part is not None)

    def changed_names(self) -> frozenset[str]:
        """Return the names of global and closure variables that pending effects change."""
        return frozenset(filter(None, (each.variable_name() for each in self.effects.values())))

    # Generators ----------------------------------------------------------------------------------

    def generator_started(self, generator: StartedGenerator, step: int, by_frame: bool) -> None:
        """Note that a generator runs since a step of the captured frame: it cannot be made again.

        Args:
            by_frame: whether the captured frame takes its values, not a function that it calls.
        """
        self._generators.append((generator, step))
        if by_frame:
            self._own_generators.append(generator)

    def starting_steps(self) -> list[int]:
        """Return the steps of the frame at which unfinished generators started, last first."""
        return sorted({s for g, s in self._generators if not g.finished}, reverse=True)

    def left_generator(self) -> StartedGenerator | None:
        """Return a generator that the frame may drop half way, inside a ``try`` or ``with``."""
        return next((each for each in self._own_generators if each.may_clean_up()), None)

    # Emission ------------------------------------------------------------------------------------

    def emit(self, residual: Residual) -> None:
        """Apply all visible effects in the order of first writes.

        First every value that some visible effect needs gets a name, which may make further new
        objects visible. Only then is anything changed, so that values are read before the writes.

        Raises:
            UnsupportedError: a live value cannot be rebuilt.
        """
        visible: set[int] = set()
        while batch := [e for e in self._visible(residual) if id(e) not in visible]:
            for effect in batch:
                visible.add(id(effect))
                effect.prepare(residual)
        for effect in self._visible(residual):
            effect.emit(residual)
        for generator, _ in self._generators:  # that run code when they are dropped
            if not residual.is_named(generator) and generator.needs_cleanup():
                name = generator.function_name
                unsupported("generator", f"the generator {name} is left inside a try or with")

    def _visible(self, residual: Residual) -> Iterator[Effect]:
        for effect in list(self.effects.values()):
            owner = effect.owner()
            if owner is None or not self.is_new(owner) or residual.is_named(owner):
                yield effect
