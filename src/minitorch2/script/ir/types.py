"""Types of the IR: what a value may be, with subtyping, joining and type variables.

A subtype keeps the representation of its supertype (TorchScript overview, "Type"): a value of the
subtype can be used as it is. `str(type)` is the canonical text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, Flag
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import torch

from minitorch2.script.ir.qualified_names import qualified_name, unique_name

Size: TypeAlias = "int | str | None"

DTYPE_NAMES: Final[dict[torch.dtype, str]] = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
    torch.complex32: "ComplexHalf",
}
for _dtype in vars(torch).values():
    if isinstance(_dtype, torch.dtype):
        DTYPE_NAMES.setdefault(_dtype, str(_dtype).removeprefix("torch.").capitalize())
DTYPES: Final = {name: dtype for dtype, name in DTYPE_NAMES.items()}


class Type:
    """Base class of all types: frozen dataclasses, compared by what they contain."""

    __slots__ = ()

    def contained(self) -> tuple[Type, ...]:
        """Return the types of what a value of this type holds: elements, keys, results."""
        return ()


@dataclass(frozen=True)
class PrimitiveType(Type):
    """A type without parts, such as `int`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorType(Type):
    """Tensors, with what is known of them; `None` means not known.

    Attributes:
        sizes: one entry a dimension: a number, the name of a size symbol, or None. The tuple is
            None where the rank is not known.
    """

    dtype: torch.dtype | None = None
    device: torch.device | None = None
    requires_grad: bool | None = None
    sizes: tuple[Size, ...] | None = None

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorType:
        """Return all that can be known of a tensor."""
        sizes = tuple(map(int, tensor.shape))
        return cls(tensor.dtype, tensor.device, tensor.requires_grad, sizes)

    def __str__(self) -> str:
        parts = ["..."] if self.sizes is None else [_size_text(size) for size in self.sizes]
        if self.requires_grad is not None:
            parts.append(f"requires_grad={int(self.requires_grad)}")
        if self.device is not None:
            parts.append(f"device={self.device}")
        name = "Tensor" if self.dtype is None else DTYPE_NAMES[self.dtype]
        return "Tensor" if self == TENSOR else f"{name}({', '.join(parts)})"

    def generalizes(self, other: TensorType) -> bool:
        """Tell whether each tensor of the other type is also one of this type."""
        facts = ("dtype", "device", "requires_grad")
        if any(getattr(self, fact) not in (None, getattr(other, fact)) for fact in facts):
            return False
        if self.sizes is None or other.sizes is None:
            return self.sizes is None
        same_rank = len(self.sizes) == len(other.sizes)
        return same_rank and all(a in (None, b) for a, b in zip(self.sizes, other.sizes))

    def join(self, other: TensorType) -> TensorType:
        """Return the facts that both types share."""
        return TensorType(
            self.dtype if self.dtype == other.dtype else None,
            self.device if self.device == other.device else None,
            self.requires_grad if self.requires_grad == other.requires_grad else None,
            _join_sizes(self.sizes, other.sizes),
        )


def _join_sizes(a: tuple[Size, ...] | None, b: tuple[Size, ...] | None) -> tuple[Size, ...] | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b))


def _size_text(size: Size) -> str:
    return "*" if size is None else str(size)


@dataclass(frozen=True)
class ListType(Type):
    """Lists whose elements have one type; they can be changed in place."""

    element: Type

    def __str__(self) -> str:
        return f"{self.element}[]"

    def contained(self) -> tuple[Type, ...]:
        return (self.element,)


@dataclass(frozen=True)
class OptionalType(Type):
    """Values of a type, or None. An optional of an optional is the same as the inner one."""

    element: Type

    def __new__(cls, element: Type | None = None) -> Any:
        return element if isinstance(element, OptionalType) else super().__new__(cls)

    def __init__(self, element: Type) -> None:
        if not isinstance(element, OptionalType):
            object.__setattr__(self, "element", element)

    def __str__(self) -> str:
        return f"{self.element}?"

    def contained(self) -> tuple[Type, ...]:
        return (self.element,)


@dataclass(frozen=True)
class UnionType(Type):
    """Values of one of several types, of which none is a subtype of another; see `union_of`."""

    members: tuple[Type, ...]

    def __str__(self) -> str:
        return f"Union({', '.join(map(str, self.members))})"

    def contained(self) -> tuple[Type, ...]:
        return self.members


@dataclass(frozen=True)
class TupleType(Type):
    """Tuples: one type a position; NamedTuples have names of fields, a name, and maybe a class."""

    elements: tuple[Type, ...]
    names: tuple[str, ...] | None = None
    name: str | None = None
    python_class: type | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.names is None:
            return f"({', '.join(map(str, self.elements))})"
        parts = (f"{name}: {element}" for name, element in zip(self.names, self.elements))
        return f"{self.name}({', '.join(parts)})"

    def contained(self) -> tuple[Type, ...]:
        return self.elements


@dataclass(frozen=True)
class DictType(Type):
    """Dictionaries from one type to another; they can be changed in place."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"Dict({self.key}, {self.value})"

    def contained(self) -> tuple[Type, ...]:
        return (self.key, self.value)


@dataclass(frozen=True)
class FutureType(Type):
    """Results of `fork`: values that `wait` gives."""

    element: Type

    def __str__(self) -> str:
        return f"Future({self.element})"

    def contained(self) -> tuple[Type, ...]:
        return (self.element,)


@dataclass(frozen=True)
class ClassType(Type):
    """Objects of one module type or class, by name; `owner` describes its attributes."""

    name: str
    owner: object = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class EnumType(Type):
    """Members of an enumeration, by its name; the class is None in a graph read from text."""

    name: str
    python_class: type[Enum] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"Enum({self.name})"

    @property
    def value_type(self) -> Type:
        """The type of the members' values; `Any` if they have none in common."""
        return _common(member.value for member in self.python_class or ())

    @property
    def is_plain(self) -> bool:
        """Tell whether members are numbers or text, as those of an `IntEnum`."""
        return self.python_class is not None and issubclass(self.python_class, int | str | float)


@dataclass(frozen=True)
class FunctionType(Type):
    """A scripted function as a value; its name identifies it."""

    name: str
    function: object = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"Function({self.name})"


@dataclass(frozen=True)
class VariableType(Type):
    """A type variable of a schema, such as `t`."""

    name: str

    def __str__(self) -> str:
        return self.name


TENSOR: Final = TensorType()
INT: Final = PrimitiveType("int")
FLOAT: Final = PrimitiveType("float")
BOOL: Final = PrimitiveType("bool")
COMPLEX: Final = PrimitiveType("complex")
STR: Final = PrimitiveType("str")
NONE: Final = PrimitiveType("NoneType")
NUMBER: Final = PrimitiveType("Scalar")
DEVICE: Final = PrimitiveType("Device")
ANY_ENUM: Final = PrimitiveType("AnyEnumType")
ANY: Final = PrimitiveType("Any")
GENERATOR: Final = PrimitiveType("Generator")
STREAM: Final = PrimitiveType("Stream")
STORAGE: Final = PrimitiveType("Storage")
SCALAR_TYPE: Final = PrimitiveType("ScalarType")
LAYOUT: Final = PrimitiveType("Layout")
MEMORY_FORMAT: Final = PrimitiveType("MemoryFormat")

# A type and those that may stand for it. Archives hold dtypes and layouts as ints,
# and annotations call them so.
SUBTYPES: Final[Mapping[Type, tuple[Type, ...]]] = {
    NUMBER: (INT, FLOAT, COMPLEX),
    INT: (SCALAR_TYPE, LAYOUT, MEMORY_FORMAT),
    SCALAR_TYPE: (INT,),
    LAYOUT: (INT,),
    MEMORY_FORMAT: (INT,),
}


def is_subtype_of(a: Type, b: Type) -> bool:
    """Tell whether a value of type `a` can be used where one of type `b` is asked for."""
    if a == b or b == ANY or a in SUBTYPES.get(b, ()):
        return True
    match a, b:
        case EnumType(), _ if b == ANY_ENUM:
            return True
        case _, OptionalType(element):
            inner = a.element if isinstance(a, OptionalType) else a
            return a == NONE or is_subtype_of(inner, element)
        case UnionType(members), _:
            return all(is_subtype_of(member, b) for member in members)
        case _, UnionType(members):
            return any(is_subtype_of(a, member) for member in members)
        case TensorType(), TensorType():
            return b.generalizes(a)
        case TupleType(), TupleType():
            return _is_tuple_subtype(a, b)
        case FutureType(x), FutureType(y):
            return is_subtype_of(x, y)
        case (ListType(), ListType()) | (DictType(), DictType()):
            return all(map(_same_but_for_facts, a.contained(), b.contained()))
    return False


def _is_tuple_subtype(a: TupleType, b: TupleType) -> bool:
    named = b.names is None or (a.names, a.name) == (b.names, b.name)
    same_length = len(a.elements) == len(b.elements)
    return named and same_length and all(map(is_subtype_of, a.elements, b.elements))


def _same_but_for_facts(a: Type, b: Type) -> bool:
    """Compare what containers hold: they can be written to, so only facts of tensors may go."""
    return erase_facts(a) == erase_facts(b) and is_subtype_of(a, b)


def erase_facts(given: Type) -> Type:
    """Replace each tensor type in a type by plain `Tensor`."""
    return TENSOR if isinstance(given, TensorType) else map_contained(given, erase_facts)


def map_contained(given: Type, change: Any) -> Type:
    """Return the type with a function applied to each type that it contains directly."""
    match given:
        case TupleType():
            return replace(given, elements=tuple(map(change, given.elements)))
        case UnionType(members):
            return union_of(map(change, members))
        case ListType() | OptionalType() | DictType() | FutureType():
            names = (part.name for part in fields(given))
            return type(given)(*(change(getattr(given, name)) for name in names))
    return given


def union_of(types: Iterable[Type]) -> Type:
    """Return the type of values of any of several types.

    Several kinds of numbers are `Scalar`; one type with None is an optional.
    """
    listed = list(dict.fromkeys(inner for given in types for inner in members(given)))
    numbers = [given for given in listed if given in SUBTYPES[NUMBER]]
    if len(numbers) > 1:
        listed = [NUMBER, *(given for given in listed if given not in numbers)]
    wider = {a for a in listed for b in listed if a != b and is_subtype_of(a, b)}
    kept = [given for given in listed if given != NONE and given not in wider]
    if ANY in listed or not kept:
        return ANY if ANY in listed else NONE
    joined = kept[0] if len(kept) == 1 else UnionType(tuple(kept))
    return OptionalType(joined) if NONE in listed else joined


def members(given: Type) -> tuple[Type, ...]:
    """Return the types of which a value of an optional or a union has one."""
    if isinstance(given, OptionalType):
        return (*members(given.element), NONE)
    return given.members if isinstance(given, UnionType) else (given,)


def unify(a: Type, b: Type) -> Type | None:
    """Return the least type that both are subtypes of; None if there is none but `Any`.

    A type and None give an optional.
    """
    match a, b:
        case TensorType(), TensorType():
            return a.join(b)
        case _ if is_subtype_of(a, b):
            return b
        case _ if is_subtype_of(b, a):
            return a
        case (OptionalType(), _) | (_, OptionalType()):
            inner = unify(*(t.element if isinstance(t, OptionalType) else t for t in (a, b)))
            return None if inner is None else OptionalType(inner)
        case (_, PrimitiveType("NoneType")):
            return OptionalType(a)
        case (PrimitiveType("NoneType"), _):
            return OptionalType(b)
        case TupleType(), TupleType():
            return _unify_tuples(a, b)
        case (ListType(), ListType()) | (DictType(), DictType()) | (FutureType(), FutureType()):
            return erase_facts(a) if erase_facts(a) == erase_facts(b) else None
    return None


def _unify_tuples(a: TupleType, b: TupleType) -> Type | None:
    if len(a.elements) != len(b.elements):
        return None
    elements = [joined for joined in map(unify, a.elements, b.elements) if joined is not None]
    same_name = (a.names, a.name) == (b.names, b.name)
    if len(elements) < len(a.elements):
        return None
    return replace(a, elements=tuple(elements)) if same_name else TupleType(tuple(elements))


def has_variables(given: Type) -> bool:
    """Tell whether a type contains type variables."""
    return isinstance(given, VariableType) or any(map(has_variables, given.contained()))


def substitute(given: Type, bindings: Mapping[str, Type]) -> Type:
    """Replace type variables by the types that they are bound to; others stay."""
    if isinstance(given, VariableType):
        return bindings.get(given.name, given)
    return map_contained(given, lambda inner: substitute(inner, bindings))


def match_type(formal: Type, actual: Type, bindings: dict[str, Type]) -> Type | None:
    """Match a value's type with a parameter's, which may contain type variables.

    Args:
        formal: the type of the parameter.
        actual: the type of the value.
        bindings: types of variables; new ones are added.

    Returns:
        The parameter's type without variables, of which `actual` is a subtype; None if it cannot
        be so.
    """
    if not has_variables(formal):
        return formal if is_subtype_of(actual, formal) else None
    if not _bind(formal, actual, bindings):
        return None
    bound = substitute(formal, bindings)
    return bound if has_variables(bound) or is_subtype_of(actual, bound) else None


def _bind(formal: Type, actual: Type, bindings: dict[str, Type]) -> bool:
    if isinstance(formal, VariableType):
        joined = unify(bindings[formal.name], actual) if formal.name in bindings else actual
        if joined is not None:
            bindings[formal.name] = joined
        return joined is not None
    if isinstance(formal, OptionalType):
        inner = actual.element if isinstance(actual, OptionalType) else actual
        return actual == NONE or _bind(formal.element, inner, bindings)
    parts, given = formal.contained(), actual.contained()
    if not parts:
        return True
    if type(formal) is not type(actual) or len(parts) != len(given):
        return False
    return all(_bind(part, other, bindings) for part, other in zip(parts, given))


CLASS_TYPES: Final[tuple[tuple[type, Type], ...]] = (
    (bool, BOOL),
    (int, INT),
    (float, FLOAT),
    (complex, COMPLEX),
    (str, STR),
    (type(None), NONE),
    (torch.Tensor, TENSOR),
    (torch.Size, ListType(INT)),
    (torch.device, DEVICE),
    (torch.dtype, SCALAR_TYPE),
    (torch.layout, LAYOUT),
    (torch.memory_format, MEMORY_FORMAT),
    (torch.Generator, GENERATOR),
    (torch.Stream, STREAM),
    (torch.UntypedStorage, STORAGE),
)


OBJECT_TYPES: Final[WeakKeyDictionary[type, Type]] = WeakKeyDictionary()
"""Types of the classes of users that are compiled."""


def is_module_type(given: Type) -> bool:
    """Tell whether values of a type are modules; other objects are values like lists."""
    return isinstance(given, ClassType) and bool(getattr(given.owner, "is_module", True))


def is_enumeration(given: Any) -> bool:
    """Tell whether an object is a class of members; flags, which can be joined, are ints."""
    return isinstance(given, type) and issubclass(given, Enum) and not issubclass(given, Flag)


def enum_type(python_class: type[Enum], name: str | None = None) -> Type:
    """Return the type of an enumeration's members.

    Args:
        python_class: the enumeration.
        name: its name in graphs, if it has no other one yet.
    """
    if python_class not in OBJECT_TYPES:
        own = unique_name(name or qualified_name(python_class))
        OBJECT_TYPES[python_class] = EnumType(own, python_class)
    return OBJECT_TYPES[python_class]


def is_undeclared(given: Type) -> bool:
    """Tell whether values of a type are objects of a class that its user has not scripted."""
    return isinstance(given, ClassType) and not getattr(given.owner, "is_declared", True)


def type_of(value: Any) -> Type:
    """Return the type of a Python value; it is its tag (TorchScript overview, "IValue").

    A tensor's is plain `Tensor`. An object with an attribute `script_type` has that type. A list
    or dictionary whose elements share no type holds `Any`; an empty one holds tensors.
    """
    if is_enumeration(type(value)):
        return enum_type(type(value))
    for python_class, its_type in CLASS_TYPES:
        if isinstance(value, python_class):
            return its_type
    match value:
        case list():
            return ListType(_common(value))
        case dict():
            return DictType(_common(value, STR), _common(value.values()))
        case tuple():
            names = getattr(value, "_fields", None)
            name = None if names is None else type(value).__qualname__
            return TupleType(tuple(map(type_of, value)), names, name)
    known = OBJECT_TYPES.get(type(value)) or getattr(value, "script_type", ANY)
    return known if isinstance(known, Type) else ANY


def _common(values: Any, of_nothing: Type = TENSOR) -> Type:
    joined: Type | None = None
    for found in map(type_of, values):
        joined = found if joined is None else unify(joined, found) or ANY
    return of_nothing if joined is None else joined


def walk_types(given: Type) -> Iterator[Type]:
    """Iterate over a type and all types that it contains, at any depth."""
    yield given
    for inner in given.contained():
        yield from walk_types(inner)
