"""Sources: the origins of values, as Python expressions that load them again.

Grammar::

    source ::= Local(name) | Global(name) | Cell(name)          roots of the captured frame
             | CellObject(name)                                 the cell itself, not what it holds
             | Reference(name)                                  an object held by compiled code
             | Drawn(name)                                      a random number of this very call
             | Attribute(source, name) | Item(source, key)      one step further
             | TypeOf(source) | Stride(source, dim) | Call(source) | Closure(source, index)
             | Applied(source, function)                        a function of this project's
             | FunctionMode(stack, index)                       an active `TorchFunctionMode`
             | DictKey(source, index) | DictValue(source, index)
             | Contents(source, kind)                           past overridden methods
             | Reduced(source) | Peek(source, index)            parts and elements of an iterator

A source has two users. A guard evaluates the expression before the compiled code runs. Residual
code evaluates it afterwards to load, rebuild or mutate the value. PyTorch 2 paper, section 3.5
("each instance also tracks where it came from").
"""

from __future__ import annotations

import copy
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

from minitorch2.graph.scope import is_name

_KINDS: Final[dict[str, type]] = {c.__name__: c for c in (list, tuple, dict, OrderedDict)}
"""The classes of `ContentsSource`."""
Naming: TypeAlias = Callable[[type | Callable[..., object]], str]
"""Names a function of Python's in a text: the user may have given its own name to another."""


def plainly(function: type | Callable[..., object]) -> str:
    """Return the function's own name, for people."""
    return function.__name__


@dataclass(frozen=True, eq=False)
class Source:
    """Base of all sources; equal sources print the same expression.

    Sources are keys of many tables and as long as the path they stand for, so each computes its
    hash once.
    """

    is_fixed: ClassVar[bool] = False
    """True if the expression always loads the same object, so that it needs no guard."""

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (type(self), *(getattr(self, each.name) for each in fields(self) if each.compare))

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Source) and self._hash == other._hash and self._key == other._key

    def expression(self, named: Naming = plainly) -> str:
        """Return the expression that loads the value, given the frame's locals and globals."""
        raise NotImplementedError

    @property
    def base(self) -> Source | None:
        """The source that this one is a step away from; None for a root."""
        return None

    def root(self) -> Source:
        """Return the first source of the path."""
        return self if self.base is None else self.base.root()

    def path(self) -> Iterator[Source]:
        """Yield this source and those it steps from, this one first."""
        source: Source | None = self
        while source is not None:
            yield source
            source = source.base

    def roots(self) -> Iterator[Source]:
        """Yield the names that the expression mentions."""
        yield from [self] if self.base is None else self.base.roots()

    def __str__(self) -> str:
        return self.expression()


@dataclass(frozen=True, eq=False)
class RootSource(Source):
    """A source that is just a name."""

    name: str

    def expression(self, named: Naming = plainly) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class LocalSource(RootSource):
    """A local variable (an argument) of the captured frame.

    Attributes:
        shown: the user's expression for a value that has no name in the user's program.
    """

    shown: str = field(default="", compare=False)

    def expression(self, named: Naming = plainly) -> str:
        return self.shown if self.shown and named is plainly else self.name


@dataclass(frozen=True, eq=False)
class GlobalSource(RootSource):
    """A global of the captured frame's module; builtins when the module does not shadow them."""


@dataclass(frozen=True, eq=False)
class CellSource(RootSource):
    """A free variable of the captured frame: a cell made outside (closure case 1)."""


@dataclass(frozen=True, eq=False)
class CellObjectSource(RootSource):
    """The cell of a free variable of the captured frame."""

    def expression(self, named: Naming = plainly) -> str:
        return f"(lambda: {self.name}).__closure__[0]"


@dataclass(frozen=True, eq=False)
class ReferenceSource(RootSource):
    """An object that the compiled code refers to by a private global name.

    Used for objects with no path from the frame: the globals of an inlined function's module.
    """

    is_fixed = True


@dataclass(frozen=True, eq=False)
class DrawnSource(RootSource):
    """A value that residual code has drawn: guards run earlier and cannot ask for it."""


def is_drawn(source: Source) -> bool:
    """Tell whether a value is, or is a part of, a value that residual code draws at random."""
    return isinstance(source.root(), DrawnSource)


@dataclass(frozen=True, eq=False)
class StepSource(Source):
    """A source one step away from another.

    Attributes:
        FORM: the expression, given those of `base` and of the class's own `FUNCTION`.
    """

    FORM: ClassVar[str]
    FUNCTION: ClassVar[Any] = None
    of: Source

    @property
    def base(self) -> Source:
        return self.of

    def step(self, base: str, named: Naming = plainly) -> str:
        """Return the expression, given one for the base: guards keep the base in a temporary."""
        function = "" if self.FUNCTION is None else named(self.FUNCTION)
        return self.FORM.format(base=base, self=self, function=function)

    def expression(self, named: Naming = plainly) -> str:
        return self.step(self.of.expression(named), named)


@dataclass(frozen=True, eq=False)
class AttributeSource(StepSource):
    """``base.name``."""

    name: str

    def step(self, base: str, named: Naming = plainly) -> str:
        # A name with leading underscores would be mangled inside a class.
        if named is plainly and self.name == "cell_contents":
            return base  # people call a cell's content by the variable's name
        is_mangled = self.name.startswith("__") and not self.name.endswith("__")
        if is_name(self.name) and not is_mangled:
            return f"{base}.{self.name}"
        return f"{named(getattr)}({base}, {self.name!r})"


@dataclass(frozen=True, eq=False)
class FixedAttributeSource(AttributeSource):
    """An attribute of a module whose attributes never change, such as ``torch.abs``."""

    is_fixed = True


@dataclass(frozen=True, eq=False)
class ItemSource(StepSource):
    """``base[key]`` for a key whose `repr` is a literal (int, str, bool, None, tuples of them)."""

    key: object
    FORM = "{base}[{self.key!r}]"


@dataclass(frozen=True, eq=False)
class StrideSource(StepSource):
    """``base.stride(dim)``."""

    dim: int
    FORM = "{base}.stride({self.dim})"


@dataclass(frozen=True, eq=False)
class CallSource(StepSource):
    """``base()``: the object that a weak reference refers to."""

    FORM = "{base}()"


@dataclass(frozen=True, eq=False)
class AppliedSource(StepSource):
    """``function(base)``, for a function that runs no code of the user's."""

    function: ReferenceSource

    def step(self, base: str, named: Naming = plainly) -> str:
        return f"{self.function}({base})"

    def roots(self) -> Iterator[Source]:
        yield self.function
        yield from self.of.roots()


@dataclass(frozen=True, eq=False)
class ReducedSource(StepSource):
    """``base.__reduce__()``: the arguments from which a built-in iterator was made."""

    FORM = "{base}.__reduce__()"


def rest_of(iterator: Iterator[Any]) -> Iterator[Any]:
    """Return a copy of an iterator.

    Raises:
        LookupError: it has nothing to give, since its dict has changed its size.
    """
    try:
        return copy.copy(iterator)
    except RuntimeError as error:
        raise LookupError from error


@dataclass(frozen=True, eq=False)
class PeekSource(StepSource):
    """The element that the iterator `base` would give after `index` other elements."""

    index: int

    def step(self, base: str, named: Naming = plainly) -> str:
        if named is plainly:
            return f"peek({base}, {self.index})"
        rest = f"{named(rest_of)}({base})"
        return f"[*{named(itertools.islice)}({rest}, {self.index}, {self.index + 1})][0]"


@dataclass(frozen=True, eq=False)
class FunctionModeSource(StepSource):
    """A mode on PyTorch's stack of modes that override functions; `base` reads the stack."""

    index: int
    FORM = "{base}({self.index})"


@dataclass(frozen=True, eq=False)
class TypeSource(StepSource):
    """``type(base)``."""

    FORM, FUNCTION = "{function}({base})", type


@dataclass(frozen=True, eq=False)
class ClosureSource(StepSource):
    """The content of a function's closure cell: ``fn.__closure__[index].cell_contents``."""

    index: int
    FORM = "{base}.__closure__[{self.index}].cell_contents"


@dataclass(frozen=True, eq=False)
class ContentsSource(StepSource):
    """The contents of a list, tuple or dict of a derived class, past its overridden methods."""

    kind: str

    def step(self, base: str, named: Naming = plainly) -> str:
        cls = _KINDS[self.kind]
        kind = named(cls)
        if issubclass(cls, dict):
            return f"{named(dict)}({kind}.items({base}))"
        return f"{kind}({kind}.__iter__({base}))"


@dataclass(frozen=True, eq=False)
class DictKeysSource(StepSource):
    """The list of a dict's keys or of a set's elements: for those that have no literal."""

    FORM = "[*{base}]"


@dataclass(frozen=True, eq=False)
class DictValuesSource(StepSource):
    """The list of a dict's values (or of any iterable's `values()`)."""

    FORM = "[*{base}.values()]"
