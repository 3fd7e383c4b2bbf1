"""Guards: the facts that must still be true for a captured graph to be used again.

Grammar::

    guard ::= TensorMatch(source, metadata)        class, dtype, device, requires_grad, ndim, sizes,
                                                   strides, dispatch keys: the eight checks
            | WrapperMatch(source, names, context, whole)      a tensor made of other tensors
            | IdMatch(source, object)              the very same object (function, class, module)
            | TypeMatch(source, class)             exactly this class
            | ConstantMatch(source, value)         the same type and value; -0.0 is not 0.0
            | NoneMatch(source)
            | LengthMatch(source, n) | DictKeysMatch(source, keys) | SetMatch(source, elements)
            | Remaining(source, n)                 elements left in an iterator
            | KeyPresent(source, key) | KeyAbsent(source, key)
            | AttributeGuard(source, name, present) | EmptyCell(source)
            | SameObject(source, other) | DistinctObjects(sources) | DistinctStorages(sources)
            | MemoryPattern(sources, pattern) | StorageSize(source, nbytes)
            | ShapeCondition(condition, symbols)   a relation between sizes
            | Contiguous(source, rank)             the layout of a tensor of varying sizes
            | GradMode(enabled) | GlobalState(state)
            | OverridesOfClasses(enabled)
            | Autocasts(dtypes) | AutocastDtype(device_type, dtype)
            | ClassMatch(class, names) | TensorClass(replaced)

A guard is a small frozen value: equal guards are one guard, so a set of them has no repeats, and
guards do not otherwise interact. Each gives the checks it stands for, as text over the path that
loads its value. `guard_function` joins the checks of all guards into one Python function. PyTorch 2
paper, section 3.3; the kinds' capital names are those of its author's slides.
"""

from __future__ import annotations

from minitorch2.bytecode.guards.containers import (
    AttributeGuard,
    DictKeysMatch,
    EmptyCell,
    KeyAbsent,
    KeyPresent,
    LengthMatch,
    Remaining,
    SetMatch,
)
from minitorch2.bytecode.guards.guard import (
    Check,
    Guard,
    Name,
    SourceGuard,
    Test,
)
from minitorch2.bytecode.guards.relations import (
    DistinctObjects,
    DistinctStorages,
    MemoryPattern,
    SameObject,
    StorageSize,
    memory_pattern,
)
from minitorch2.bytecode.guards.shapes import Contiguous, ShapeCondition
from minitorch2.bytecode.guards.tensors import (
    TensorMatch,
    WrapperMatch,
)
from minitorch2.bytecode.guards.torch_state import (
    STATE_READERS,
    AutocastDtype,
    Autocasts,
    GlobalState,
    GradMode,
    OverridesOfClasses,
    Setting,
    autocast_dtypes,
    global_state_guards,
)
from minitorch2.bytecode.guards.values import (
    ConstantMatch,
    IdMatch,
    LoggerDisabled,
    NoneMatch,
    TypeMatch,
    constant_match,
    id_match,
    is_permanent,
)
from minitorch2.native.torch_internals.tensor_metadata import TensorMetadata

__all__ = [
    "AttributeGuard",
    "AutocastDtype",
    "Autocasts",
    "Check",
    "Contiguous",
    "ConstantMatch",
    "DictKeysMatch",
    "DistinctObjects",
    "DistinctStorages",
    "EmptyCell",
    "GlobalState",
    "GradMode",
    "Guard",
    "IdMatch",
    "KeyAbsent",
    "KeyPresent",
    "LengthMatch",
    "Name",
    "LoggerDisabled",
    "MemoryPattern",
    "NoneMatch",
    "OverridesOfClasses",
    "Setting",
    "STATE_READERS",
    "SameObject",
    "Remaining",
    "SetMatch",
    "ShapeCondition",
    "SourceGuard",
    "StorageSize",
    "TensorMatch",
    "TensorMetadata",
    "Test",
    "TypeMatch",
    "WrapperMatch",
    "autocast_dtypes",
    "constant_match",
    "global_state_guards",
    "id_match",
    "is_permanent",
    "memory_pattern",
]
