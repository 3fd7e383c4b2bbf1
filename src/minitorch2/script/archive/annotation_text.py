"""Types as Python annotations, as they stand in `.code` and in the type tags of archives."""

from __future__ import annotations

from typing import Final

from minitorch2.script.ir.types import (
    LAYOUT,
    MEMORY_FORMAT,
    NUMBER,
    SCALAR_TYPE,
    ClassType,
    DictType,
    EnumType,
    FutureType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

_PRIMITIVES: Final[dict[Type, str]] = {
    NUMBER: "number",
    SCALAR_TYPE: "int",
    LAYOUT: "int",
    MEMORY_FORMAT: "int",
}


def annotation_text(given: Type) -> str:
    """Return a type as Python text, such as ``Dict[str, List[Tensor]]``.

    Facts about tensors are left out. Element types, layouts and memory formats are ints in files.
    """
    match given:
        case TensorType():
            return "Tensor"
        case ListType(element):
            return f"List[{annotation_text(element)}]"
        case OptionalType(element):
            return f"Optional[{annotation_text(element)}]"
        case FutureType(element):
            return f"Future[{annotation_text(element)}]"
        case DictType(key, value):
            return f"Dict[{annotation_text(key)}, {annotation_text(value)}]"
        case UnionType(members):
            return f"Union[{', '.join(map(annotation_text, members))}]"
        case TupleType(elements, None, _):
            return f"Tuple[{', '.join(map(annotation_text, elements)) or '()'}]"
        case TupleType(_, _, name) if name is not None:
            return class_name_of(name)
        case ClassType(name, _) | EnumType(name, _):
            return class_name_of(name)
    return _PRIMITIVES.get(given, str(given))


def class_name_of(name: str) -> str:
    """Return the qualified name that a class or function has in an archive."""
    return name if name.startswith("__torch__.") else f"__torch__.{name.replace('<locals>.', '')}"
