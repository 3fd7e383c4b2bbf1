"""Guards: what must still be true of the world for a captured graph to be used again.

Grammar::

    guard ::= TensorMatch(source, metadata)        class, dtype, device, requires_grad, ndim, sizes,
                                                   strides, dispatch keys: the eight checks
            | IdMatch(source, object)              the very same object (function, class, module)
            | TypeMatch(source, class)             exactly this class
            | ConstantMatch(source, value)         the same type and value; -0.0 is not 0.0
            | NoneMatch(source)
            | LengthMatch(source, n) | DictKeysMatch(source, keys) | SetMatch(source, elements)
            | AttributeGuard(source, name, present) | KeyAbsent(source, key)
            | SameObject(source, other) | DistinctObjects(sources) | DistinctStorages(sources)
            | ShapeCondition(expression, symbols)
            | GradMode(enabled) | GlobalState(state)
            | Autocasts(dtypes) | AutocastDtype(device_type, dtype)

A guard is a small frozen value: equal guards are one guard, so a set of them has no repeats, and
guards do not otherwise interact. Each knows the checks it stands for, as text over the path that
loads its value; `guard_function` joins the checks of all guards into one Python function.
PyTorch 2 paper, section 3.3; the kinds' capital names are those of its author's slides.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, ClassVar

import torch

from minitorch2.bytecode.sources import Source

if TYPE_CHECKING:
    from minitorch2.graph.node import SourceLine

Name = Callable[[object], str]
"""Gives an object that a check needs a name that only the guard function reads: what it compares
with, and the builtins it calls, which the user's module may have redefined."""


@dataclass(frozen=True)
class Check:
    """One condition of a guard.

    Attributes:
        what: the property in a reader's words, such as ``"dtype"``.
        condition: Python expression, true when the property is as it was while capturing.
        actual: Python expression of the property's present value, for explanations.
        expected: the value while capturing, for explanations.
    """

    what: str
    condition: str
    actual: str
    expected: str


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Base of all guards.

    Attributes:
        user_line: the line of the user's program that made the guard necessary.
        layer: which part of the compiler asked for it.
    """

    KIND: ClassVar[str] = "GUARD"

    user_line: SourceLine | None = field(default=None, compare=False)
    layer: str = field(default="capture", compare=False)

    @property
    def kind(self) -> str:
        """The name that the paper's slides and PyTorch use for this sort of guard."""
        return self.KIND

    def sources(self) -> tuple[Source, ...]:
        """The values it reads."""
        return ()

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        """Its conditions, given an expression for each of its sources."""
        raise NotImplementedError

    def watched(self) -> object | None:
        """An object known only by its `id`: when it dies, the compiled entry must be dropped."""
        return None

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(map(str, self.sources()))}".rstrip()


@dataclass(frozen=True)
class SourceGuard(Guard):
    """A guard on one value."""

    source: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.source,)

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        return self.checks_of(paths[0], name)

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        """Its conditions on the value that `path` loads."""
        raise NotImplementedError


# Tensors ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorMetadata:
    """What a captured graph assumes of a tensor. A size or stride of None may vary."""

    cls: type
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    dispatch_keys: int
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None

    @staticmethod
    def of(tensor: torch.Tensor, dynamic_dims: frozenset[int] = frozenset()) -> TensorMetadata:
        """The metadata of a tensor; with dynamic dimensions the strides are left free."""
        strided = tensor.layout is torch.strided
        return TensorMetadata(
            type(tensor),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
            torch._C._dispatch_keys(tensor).raw_repr(),
            tuple(None if d in dynamic_dims else n for d, n in enumerate(tensor.shape)),
            tuple(tensor.stride()) if strided and not dynamic_dims else None,
        )


@dataclass(frozen=True)
class TensorMatch(SourceGuard):
    """A tensor like the one seen while capturing (slides: TENSOR_MATCH, eight checks).

    The cheapest checks come first. Static sizes imply the number of dimensions, and the dispatch
    keys of a CPU tensor imply its device, so neither costs anything there. A model has hundreds of
    parameters, and their class and dtype leave the dispatch keys no choice but the device's.
    """

    KIND = "TENSOR_MATCH"
    metadata: TensorMetadata

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        m = self.metadata
        kind = f"{name(type)}({path})"
        yield Check("class", f"{kind} is {name(m.cls)}", kind, str(m.cls))
        yield Check("dtype", f"{path}.dtype is {name(m.dtype)}", f"{path}.dtype", str(m.dtype))
        yield _device_check(path, m.device, name)
        yield _requires_grad_check(path, m.requires_grad)
        yield from _size_checks(path, m, name)
        if m.cls is not torch.nn.Parameter:
            keys = f"{name(torch._C._dispatch_keys)}({path}).raw_repr()"
            expected = f"{keys} == {m.dispatch_keys}"
            yield Check("dispatch keys", expected, keys, str(m.dispatch_keys))


def _device_check(path: str, device: torch.device, name: Name) -> Check:
    fast = f"{path}.is_cpu" if device.type == "cpu" else f"{path}.device == {name(device)}"
    return Check("device", fast, f"{path}.device", str(device))


def _requires_grad_check(path: str, expected: bool) -> Check:
    condition = f"{path}.requires_grad" if expected else f"not {path}.requires_grad"
    return Check("requires_grad", condition, f"{path}.requires_grad", str(expected))


def _size_checks(path: str, m: TensorMetadata, name: Name) -> Iterator[Check]:
    if None in m.sizes:
        yield Check("ndim", f"{path}.ndim == {len(m.sizes)}", f"{path}.ndim", str(len(m.sizes)))
        for d, n in enumerate(m.sizes):
            if n is not None:
                size = f"{path}.shape[{d}]"
                yield Check(f"size of dimension {d}", f"{size} == {n}", size, str(n))
    else:
        yield Check("sizes", f"{path}.shape == {name(m.sizes)}", f"{path}.shape", str(m.sizes))
    if m.cls is torch.nn.Parameter and _is_contiguous(m):
        yield Check("strides", f"{path}.is_contiguous()", f"{path}.stride()", str(m.strides))
    elif m.strides is not None:
        actual = f"{path}.stride()"
        yield Check("strides", f"{actual} == {name(m.strides)}", actual, str(m.strides))


def _is_contiguous(m: TensorMetadata) -> bool:
    """Whether `is_contiguous` tells these strides from others, but for dimensions of size one."""
    if m.strides is None or None in m.sizes:
        return False
    return torch.empty_strided(m.sizes, m.strides, device="meta").is_contiguous()  # type: ignore[arg-type]


# Identity, type, value ----------------------------------------------------------------------------


def is_permanent(value: object) -> bool:
    """Whether an object may be held strongly by a guard, as it lives as long as the process."""
    return isinstance(value, ModuleType | BuiltinFunctionType | torch.dtype) or (
        isinstance(value, type) and not value.__flags__ & _HEAP_TYPE
    )


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: classes made by Python code, which can die


@dataclass(frozen=True)
class IdMatch(SourceGuard):
    """The very same object (slides: FUNCTION_MATCH for functions and modules).

    The object is held weakly where that is possible, so that guards keep nothing alive.
    """

    identity: int
    held: Callable[[], object] = field(compare=False, repr=False)

    @property
    def kind(self) -> str:
        """FUNCTION_MATCH for callables and Python modules, ID_MATCH for other objects."""
        value = self.held()
        functional = callable(value) or isinstance(value, ModuleType)
        return "FUNCTION_MATCH" if functional else "ID_MATCH"

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        value = self.held()
        weak = isinstance(self.held, weakref.ref)
        condition = f"{name(id)}({path}) == {self.identity}" if weak else f"{path} is {name(value)}"
        yield Check("identity", condition, path, _short(value))

    def watched(self) -> object | None:
        return self.held() if isinstance(self.held, weakref.ref) else None


def id_match(source: Source, value: object, user_line: SourceLine | None = None) -> IdMatch:
    """The guard that `source` still loads this very object."""
    held: Callable[[], object] = lambda: value  # noqa: E731
    if not is_permanent(value) and type(value).__weakrefoffset__:
        held = weakref.ref(value)
    return IdMatch(source, id(value), held, user_line=user_line)


@dataclass(frozen=True)
class TypeMatch(SourceGuard):
    """Exactly this class, subclasses excluded."""

    KIND = "TYPE_MATCH"
    cls: type

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(type)}({path})"
        yield Check("type", f"{actual} is {name(self.cls)}", actual, str(self.cls))


@dataclass(frozen=True)
class ConstantMatch(SourceGuard):
    """The same type and the same value, told apart as `repr` tells floats apart."""

    KIND = "CONSTANT_MATCH"
    cls: type
    shown: str
    value: object = field(compare=False, repr=False)

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        yield Check("constant", _constant_condition(path, self.value, name), path, self.shown)


def constant_match(source: Source, value: object, user_line: SourceLine | None = None) -> Guard:
    """The guard that `source` still loads a value equal to this constant."""
    if value is None:
        return NoneMatch(source, user_line=user_line)
    return ConstantMatch(source, type(value), repr(value), value, user_line=user_line)


def _constant_condition(path: str, value: object, name: Name) -> str:
    if isinstance(value, bool | torch.dtype | torch.layout) or value is Ellipsis:
        return f"{path} is {name(value)}"
    same_type = f"{name(type)}({path}) is {name(type(value))}"
    if isinstance(value, float | complex) and not _plain_float(value):
        return f"{same_type} and {name(repr)}({path}) == {repr(value)!r}"
    return f"{same_type} and {path} == {name(value)}"


def _plain_float(value: float | complex) -> bool:
    """Whether ``==`` tells the number from all others: not so for zeros, NaN and complex parts."""
    return isinstance(value, float) and value != 0 and not math.isnan(value)


@dataclass(frozen=True)
class NoneMatch(SourceGuard):
    """The value is None."""

    KIND = "NONE_MATCH"

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        yield Check("None", f"{path} is None", path, "None")


# Containers and attributes ------------------------------------------------------------------------


@dataclass(frozen=True)
class LengthMatch(SourceGuard):
    """A container with as many elements."""

    KIND = "LENGTH"
    length: int

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(len)}({path})"
        yield Check("length", f"{actual} == {self.length}", actual, str(self.length))


@dataclass(frozen=True)
class DictKeysMatch(SourceGuard):
    """A dict with the same keys in the same order."""

    KIND = "DICT_KEYS"
    keys: tuple[Hashable, ...]

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"[*{path}]"
        expected = list(self.keys)
        yield Check("keys", f"{actual} == {name(expected)}", actual, str(expected))


@dataclass(frozen=True)
class SetMatch(SourceGuard):
    """A set with the same elements."""

    KIND = "SET_CONTAINS"
    elements: frozenset[Hashable]

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        yield Check("elements", f"{path} == {name(self.elements)}", path, str(set(self.elements)))


@dataclass(frozen=True)
class KeyAbsent(SourceGuard):
    """A dict without this key."""

    KIND = "DICT_CONTAINS"
    key: Hashable

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        key = name(self.key)
        yield Check(f"no key {self.key!r}", f"{key} not in {path}", f"{key} in {path}", "absent")


@dataclass(frozen=True)
class AttributeGuard(SourceGuard):
    """Whether an object has an attribute."""

    KIND = "HASATTR"
    attribute: str
    present: bool

    def checks_of(self, path: str, name: Name) -> Iterator[Check]:
        actual = f"{name(hasattr)}({path}, {self.attribute!r})"
        condition = actual if self.present else f"not {actual}"
        yield Check(f"attribute {self.attribute}", condition, actual, str(self.present))


# Relations between values -------------------------------------------------------------------------


@dataclass(frozen=True)
class SameObject(SourceGuard):
    """Two sources load one object, as they did while capturing."""

    KIND = "DUPLICATE_INPUT"
    other: Source

    def sources(self) -> tuple[Source, ...]:
        return (self.source, self.other)

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        condition = f"{paths[0]} is {paths[1]}"
        yield Check(f"is {self.other}", condition, condition, "True")


@dataclass(frozen=True)
class DistinctObjects(Guard):
    """No two of the sources load one object."""

    KIND = "DISTINCT_INPUTS"
    members: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.members

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        identities = ", ".join(f"{name(id)}({path})" for path in paths)
        actual = f"{name(len)}({{{identities}}})"
        if len(paths) == 2:
            actual = f"2 - ({paths[0]} is {paths[1]})"
        yield Check("distinct", f"{actual} == {len(paths)}", actual, str(len(paths)))


@dataclass(frozen=True)
class DistinctStorages(Guard):
    """No two of the tensors share memory: needed when the graph writes to one of them."""

    KIND = "DISTINCT_STORAGES"
    members: tuple[Source, ...]

    def sources(self) -> tuple[Source, ...]:
        return self.members

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        pointers = ", ".join(f"{path}.untyped_storage()._cdata" for path in paths)
        actual = f"{name(len)}({{{pointers}}})"
        yield Check("distinct storages", f"{actual} == {len(paths)}", actual, str(len(paths)))


@dataclass(frozen=True)
class ShapeCondition(Guard):
    """A relation between sizes, as Python text over symbols that stand for sources."""

    KIND = "SHAPE_ENV"
    expression: str
    symbols: tuple[tuple[str, Source], ...]

    def sources(self) -> tuple[Source, ...]:
        return tuple(source for _, source in self.symbols)

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        bound = ", ".join(symbol for symbol, _ in self.symbols)
        condition = f"(lambda {bound}: {self.expression})({', '.join(paths)})"
        yield Check("shape", condition, f"({', '.join(paths)},)", self.expression)


# State of PyTorch ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradMode(Guard):
    """Whether gradients are recorded."""

    KIND = "GRAD_MODE"
    enabled: bool

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(torch.is_grad_enabled)}()"
        condition = actual if self.enabled else f"not {actual}"
        yield Check("grad mode", condition, actual, str(self.enabled))


STATE_READERS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("default dtype", torch.get_default_dtype),
    ("inference mode", torch.is_inference_mode_enabled),
    ("deterministic algorithms", torch._C._get_deterministic_algorithms),
    ("function modes", torch._C._len_torch_function_stack),
    ("dispatch modes", torch._C._len_torch_dispatch_stack),
)
"""What PyTorch keeps per thread or per process and operators depend on. A default device is a
function mode, so it shows as their number."""


@dataclass(frozen=True)
class GlobalState(Guard):
    """PyTorch's own settings, in the order of `STATE_READERS`."""

    KIND = "GLOBAL_STATE"
    state: tuple[object, ...]

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        for (what, reader), value in zip(STATE_READERS, self.state, strict=True):
            actual = f"{name(reader)}()"
            condition = actual if value is True else f"not {actual}"
            if not isinstance(value, bool) and value != 0:
                condition = f"{actual} == {name(value)}"
            yield Check(what, condition, actual, str(value))


def autocast_dtypes() -> tuple[tuple[str, torch.dtype], ...]:
    """The types of device for which autocast is on, and the dtype it casts to on each."""
    return tuple(
        (device_type, torch.get_autocast_dtype(device_type))
        for device_type in torch._C._autocast_supported_devices()
        if torch.is_autocast_enabled(device_type)
    )


@dataclass(frozen=True)
class Autocasts(Guard):
    """Autocast is on for these types of device, with these dtypes, and for no others."""

    KIND = "AUTOCAST"
    dtypes: tuple[tuple[str, torch.dtype], ...]

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(autocast_dtypes)}()"
        condition = f"{actual} == {name(self.dtypes)}"
        if not self.dtypes:
            condition = f"not {name(torch._C._is_any_autocast_enabled)}()"
        yield Check("autocast", condition, actual, str(self.dtypes))


@dataclass(frozen=True)
class AutocastDtype(Guard):
    """The dtype that an autocast region uses which names none, in force or not."""

    KIND = "AUTOCAST_DTYPE"
    device_type: str
    dtype: torch.dtype

    def checks(self, paths: Sequence[str], name: Name) -> Iterator[Check]:
        actual = f"{name(torch.get_autocast_dtype)}({self.device_type!r})"
        condition = f"{actual} is {name(self.dtype)}"
        yield Check("autocast dtype", condition, actual, str(self.dtype))


def global_state_guards() -> tuple[Guard, ...]:
    """Guards on the state of PyTorch as it is now."""
    state = tuple(reader() for _, reader in STATE_READERS)
    return GradMode(torch.is_grad_enabled()), GlobalState(state), Autocasts(autocast_dtypes())


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
