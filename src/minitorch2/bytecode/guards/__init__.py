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
            | KeyMatch(source, key, present)
            | AttributeGuard(source, name, present) | EmptyCell(source)
            | SameObject(source, other) | DistinctObjects(sources) | DistinctStorages(sources)
            | MemoryPattern(sources, pattern) | StorageSize(source, nbytes)
            | ShapeCondition(condition, symbols)   a relation between sizes
            | TruthOfBuffers(sources, code, truth) a branch on what buffers count
            | Contiguous(source, rank)             the layout of a tensor of varying sizes
            | GradMode(enabled) | GlobalState(state)
            | OverridesOfClasses(enabled)
            | Autocasts(dtypes) | Setting(read, place, value)
            | ClassMatch(class, names) | TensorClass(replaced)

A guard is a small frozen value: equal guards are one guard, so a set of them has no repeats, and
guards do not otherwise interact. Each gives the checks it stands for, as instructions of the guard
machine. Three handlers read them: `guard_text` prints, `guard_function` explains, `guard_program`
runs. PyTorch 2 paper, section 3.3; the kinds' capital names are those of its author's slides.
"""

from __future__ import annotations

from minitorch2.bytecode.guards.containers import (
    AttributeGuard,
    DictKeysMatch,
    EmptyCell,
    KeyMatch,
    LengthMatch,
    Remaining,
    SetMatch,
)
from minitorch2.bytecode.guards.guard import Check, Guard, SourceGuard
from minitorch2.bytecode.guards.relations import (
    DistinctObjects,
    DistinctStorages,
    MemoryPattern,
    SameObject,
    StorageSize,
    memory_pattern,
    repeated_parts,
)
from minitorch2.bytecode.guards.shapes import ShapeCondition
from minitorch2.bytecode.guards.tensors import TensorMatch, WrapperMatch
from minitorch2.bytecode.guards.torch_state import OverridesOfClasses, Setting, global_state_guards
from minitorch2.bytecode.guards.values import (
    ConstantMatch,
    LoggerDisabled,
    TypeMatch,
    constant_match,
    id_match,
)
from minitorch2.native.torch_internals.tensor_metadata import TensorMetadata
