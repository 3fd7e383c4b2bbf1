"""Classes as values: their attributes, calling them, `super`.

PyTorch 2 paper, sections 3.5 (*UserDefinedClassVariable*) and 3.7: a construction makes a
placeholder and inlines ``__init__``; if the object lives on, residual code makes it without its
constructor.
"""

from __future__ import annotations

import enum
import operator
import threading
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, Final

import torch

from minitorch2.bytecode.frames.lifetimes import SEES_DEATH
from minitorch2.bytecode.guards.sources import AppliedSource, AttributeSource
from minitorch2.bytecode.guards.values import is_permanent
from minitorch2.bytecode.trackers import operations
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.descriptors import (
    MISSING,
    allocator,
    bind,
    class_attribute,
    class_function,
    class_lookup,
    class_tracker,
    guard_absent,
    is_made_here,
    is_of_trusted,
)
from minitorch2.bytecode.trackers.get_attr import GetAttrVariable
from minitorch2.bytecode.trackers.interfaces import Evaluator, Residual
from minitorch2.bytecode.trackers.known import ConstantObjectVariable
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    NOT_IMPLEMENTED,
    ConstantVariable,
    fold,
    literal,
    register_literal,
)
from minitorch2.bytecode.trackers.python_values.exceptions import keyword_fields, make_exception
from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.objects import ObjectVariable
from minitorch2.bytecode.trackers.python_values.records import field_names, is_record
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    NamedTupleVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.python_values.thread_local import ThreadLocalVariable
from minitorch2.bytecode.trackers.rules import apply_rule, raise_real, registers
from minitorch2.bytecode.trackers.torch_values.nn_module import ModuleVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_names import words
from minitorch2.bytecode.trackers.torch_values.tensor_subclass import (
    has_own_dispatch,
    make_wrapper,
    new_tensor,
)
from minitorch2.graph.wrapper_tensors import is_wrapper_class

Constructor = Callable[..., VariableTracker]

CONSTRUCTORS: Final[dict[type, Constructor]] = {}
"""Classes whose call has a rule of its own; the rule takes the evaluator and the arguments."""

CLASS_METHODS: Final[dict[tuple[type, str], Constructor]] = {}
"""Class methods and static methods written in C, by class and name."""


NEW: Final[dict[type, Constructor]] = {}
"""Classes whose ``__new__`` has a rule: (evaluator, class, arguments, keywords) -> outcome."""

constructs: Final[Callable[..., Callable[[Constructor], Constructor]]] = registers(CONSTRUCTORS)
"""Register the rule of a class's call."""


_DESCRIPTIVE: Final = words("__name__ __qualname__ __module__ __doc__ __annotations__")
"""Attributes that say what a class is."""


class ClassVariable(ConstantObjectVariable):
    """A class."""

    value: type

    def __repr__(self) -> str:
        return f"ClassVariable({self.value.__qualname__})"

    def as_argument(self) -> Any:
        if self.value in (bool, int, float, complex):
            return self.value
        return super().as_argument()

    def items(self, evaluator: Evaluator) -> list[VariableTracker]:
        if issubclass(self.value, enum.Enum):
            return [ConstantVariable(member) for member in self.value]
        return raise_observed(TypeError, f"'{type(self.value).__name__}' object is not iterable")

    # Attributes ---------------------------------------------------------------------------------

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        pending = evaluator.capture.side_effects.load_attribute(self, name)
        if isinstance(pending, VariableTracker):
            return pending
        found_in, raw = class_attribute(evaluator, self.value, name)
        computed = isinstance(class_lookup(type(self.value), name)[1], property)
        if raw is MISSING or computed or name in ("__dict__", "__class__"):
            return self._from_metaclass(evaluator, name)
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return literal(getattr(self.value, name))
        if issubclass(self.value, enum.Enum) and name in self.value.__members__:
            return ConstantVariable(self.value.__members__[name])
        passed = self.source is not None and not self.source.is_fixed
        is_value = not isinstance(raw, VariableTracker | type) and not hasattr(type(raw), "__get__")
        if self.source is not None and passed and is_value:
            # Residual code may load it: by the path of the class, which is not kept alive.
            return evaluator.capture.wrap(raw, AttributeSource(self.source, name))
        return bind(evaluator, None, self.value, found_in, name, raw)

    def _from_metaclass(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__module__", "__bases__", "__mro__"):
            value = getattr(self.value, name)
            if isinstance(value, str):
                return literal(value)
            return TupleVariable([class_tracker(evaluator, base) for base in value])
        if name == "__class__":
            return class_tracker(evaluator, type(self.value))
        if name == "__dict__":
            source = self.source or evaluator.capture.reference(self.value)
            return evaluator.capture.wrap(self.value.__dict__, AttributeSource(source, name))
        if name == "__annotations__":
            return self._ask_getattr(evaluator, name) if is_permanent(self.value) else literal({})
        if name == "__members__" and issubclass(self.value, enum.Enum):
            return literal(dict(self.value.__members__))
        found_in, raw = class_lookup(type(self.value), name)
        if raw is MISSING:
            return self._ask_getattr(evaluator, name)
        known = types.FunctionType | property | types.MethodDescriptorType
        if isinstance(raw, known) or not hasattr(type(raw), "__get__"):
            return bind(evaluator, self, type(self.value), found_in, name, raw)
        return unsupported("metaclass", f"attribute {name!r} of the class {self.value.__name__}")

    def _ask_getattr(self, evaluator: Evaluator, name: str) -> VariableTracker:
        """Call the metaclass's ``__getattr__``."""
        found_in, raw = class_lookup(type(self.value), "__getattr__")
        if raw is MISSING:
            if not is_made_here(evaluator, self.value):
                guard_absent(evaluator, self.value, name)
            message = f"type object {self.value.__name__!r} has no attribute {name!r}"
            raise_observed(AttributeError, message)
        function = class_function(evaluator, found_in, "__getattr__", raw)
        return function.call(evaluator, [self, ConstantVariable(name)], {})

    def bind_attribute(
        self, evaluator: Evaluator, owner: VariableTracker, name: str
    ) -> VariableTracker:
        """Return the attribute `name` of this class, read through an instance."""
        found_in, raw = class_attribute(evaluator, self.value, name)
        if raw is MISSING:
            message = f"{self.value.__name__!r} object has no attribute {name!r}"
            raise_observed(AttributeError, message)
        return bind(evaluator, owner, self.value, found_in, name, raw)

    def set_attribute(self, evaluator: Evaluator, name: str, value: VariableTracker) -> None:
        if type(self.value).__setattr__ is not type.__setattr__:
            unsupported("metaclass", f"{self.value.__name__} has a metaclass with __setattr__")
        self._refuse_descriptor(name, value)
        effects = evaluator.capture.side_effects
        effects.store_attribute(self, name, value)
        effects.class_written(name, self.value, self)

    def _refuse_descriptor(self, name: str, value: VariableTracker) -> None:
        """Refuse writes of special methods and descriptors: CPython finds them on real classes."""
        special = name.startswith("__") and name.endswith("__") and name not in _DESCRIPTIVE
        kinds = {type(class_lookup(self.value, name)[1]), value.python_type()}
        kinds -= {types.FunctionType}
        if special or any(hasattr(kind, "__get__") for kind in kinds):
            unsupported("attribute-write", f"write to {name!r} of the class {self.value.__name__}")

    def delete_attribute(self, evaluator: Evaluator, name: str) -> None:
        effects = evaluator.capture.side_effects
        pending, existed = effects.load_attribute(self, name), name in self.value.__dict__
        if not isinstance(pending, VariableTracker) and (pending is not None or not existed):
            message = f"type object {self.value.__name__!r} has no attribute {name!r}"
            raise_observed(AttributeError, message)
        self._refuse_descriptor(name, NONE)
        effects.delete_attribute(self, name, existed=existed)
        effects.class_written(name, self.value, self)

    # Calls --------------------------------------------------------------------------------------

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        found_in, method = class_lookup(type(self.value), name)
        if isinstance(method, types.FunctionType) and not is_of_trusted(found_in):
            bound = bind(evaluator, self, type(self.value), found_in, name, method)
            return bound.call(evaluator, args, kwargs)
        if name == "__subclasses__":
            return self._subclasses(evaluator)
        if name == "mro":
            return ListVariable([class_tracker(evaluator, base) for base in self.value.mro()])
        if name == "__class_getitem__":
            return self._subscript(evaluator, args[0])
        if name == "__contains__" and issubclass(self.value, enum.Enum):
            members: Any = self.value
            return fold(lambda item: item in members, args)
        if name in ("__or__", "__ror__") and args[0].is_constant():
            operands = [self, args[0]] if name == "__or__" else [args[0], self]
            return fold(operator.or_, operands)
        if name == "__len__" and issubclass(self.value, enum.Enum):
            return ConstantVariable(len(self.value))
        if name in ("__repr__", "__str__", "__format__"):
            return fold(getattr(type(self.value), name), [self, *args])
        if name == "__iter__":
            return TupleVariable(self.items(evaluator)).py___iter__(evaluator)
        return super().call_method(evaluator, name, args, kwargs)

    def _subclasses(self, evaluator: Evaluator) -> VariableTracker:
        """The direct subclasses there are now, in a new list; guards ask for them again."""
        capture, found = evaluator.capture, list[type](type.__subclasses__(self.value))
        if any(capture.references.stands_for(each) is not None for each in found):
            unsupported("metaclass", f"{self.value.__name__} has subclasses made by the function")
        asked = capture.reference(type.__subclasses__)
        place = AppliedSource(self.source or capture.reference(self.value), asked)
        return ListVariable(capture.wrap(found, place).items(evaluator))

    def _subscript(self, evaluator: Evaluator, key: VariableTracker) -> VariableTracker:
        if issubclass(self.value, enum.Enum):
            return fold(operator.getitem, [self, key])
        found_in, method = class_lookup(type(self.value), "__getitem__")
        if isinstance(method, types.FunctionType) and not is_of_trusted(found_in):
            return self.call_method(evaluator, "__getitem__", [key], {})
        found_in, custom = class_lookup(self.value, "__class_getitem__")
        if isinstance(custom, types.FunctionType | classmethod) and not is_of_trusted(found_in):
            part = "__func__" if isinstance(custom, classmethod) else None
            function = class_function(evaluator, found_in, "__class_getitem__", custom, part)
            return function.call(evaluator, [self, key], {})
        if is_of_trusted(found_in) and (real := known_object(key)) is not MISSING:
            return GenericAliasVariable(self, self.value[real])  # type: ignore[index]
        return unsupported("class-subscript", f"{self.value.__name__}[...]")

    def call_builtin(
        self, evaluator: Evaluator, method: Any, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a method of `type` itself, reached by a metaclass's ``super()``."""
        if method is type.__dict__["__call__"]:
            return self.make_instance(evaluator, args, kwargs)
        if method is type.__dict__["__init__"]:
            return NONE
        if method is type.__dict__["__instancecheck__"]:
            return ConstantVariable(issubclass(args[0].python_type(), self.value))
        return self.call_method(evaluator, method.__name__, args, kwargs)

    def call_class_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """Call a class method or static method written in C, such as ``object.__new__``."""
        if name == "__new__":
            cls = args[0].as_constant()
            if issubclass(cls, type):
                return NEW[type](evaluator, args[0], args[1:], kwargs)
            return new_object(evaluator, cls, args[1:])
        rule = next(
            (CLASS_METHODS[c, name] for c in self.value.__mro__ if (c, name) in CLASS_METHODS), None
        )
        if rule is not None:
            return rule(evaluator, self, *args, **kwargs)
        constant = all(a.is_constant() for a in (*args, *kwargs.values()))
        if constant and self.value in (str, bytes, int, float):
            return fold(getattr(self.value, name), args, kwargs)
        return unsupported("builtin-method", f"{self.value.__name__}.{name}")

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        cls = self.value
        found_in, custom = class_lookup(type(cls), "__call__")
        if isinstance(custom, types.FunctionType) and not is_of_trusted(found_in):
            method = bind(evaluator, self, type(cls), found_in, "__call__", custom)
            return method.call(evaluator, args, kwargs)
        return self.make_instance(evaluator, args, kwargs)

    def make_instance(
        self, evaluator: Evaluator, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        """``type.__call__(cls, *args, **kwargs)``"""
        cls = self.value
        if type(cls).__call__ is dict:
            return class_tracker(evaluator, dict).call(evaluator, args, kwargs)
        if cls in CONSTRUCTORS:
            made = apply_rule(CONSTRUCTORS[cls], cls, evaluator, args, kwargs)
            assert made is not None, "a constructor makes something"
            return made
        if issubclass(cls, enum.Enum):
            return fold(cls, args, kwargs)
        if issubclass(cls, BaseException) and kwargs and is_of_trusted(cls):
            made = make_exception(evaluator, cls, args)
            keyword_fields(evaluator, made, kwargs)
            return made
        if has_own_dispatch(cls) and is_wrapper_class(cls):
            return make_wrapper(evaluator, cls, args, kwargs)
        if issubclass(cls, torch.autograd.Function) or has_own_dispatch(cls):
            unsupported("construction", f"construction of a {cls.__name__} while capturing")
        if issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields"):
            return _structure(evaluator, cls, *args)
        return self._construct(evaluator, args, kwargs)

    def _construct(
        self, evaluator: Evaluator, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        found_in, new = class_lookup(self.value, "__new__")
        if isinstance(new, staticmethod):
            function = class_function(evaluator, found_in, "__new__", new, "__func__")
            made = function.call(evaluator, [self, *args], kwargs)
        elif issubclass(self.value, type):
            made = NEW[type](evaluator, self, args, kwargs)
        else:
            made = new_object(evaluator, self.value, args)
        if not issubclass(made.python_type(), self.value):
            return made
        found_in, init = class_lookup(self.value, "__init__")
        if found_in is object and isinstance(made, TupleVariable):
            return made
        bind(evaluator, made, self.value, found_in, "__init__", init).call(evaluator, args, kwargs)
        return made


class PolyfillClassVariable(ClassVariable):
    """A class or function that is evaluated as a class in Python that does the same."""

    def __init__(self, body: type, real: object) -> None:
        super().__init__(body)
        self.real = real

    def reconstruct(self, residual: Residual) -> str:
        return residual.reference(self.real)


def known_object(tracker: VariableTracker) -> Any:
    """Return a constant's value, or a real object from outside; MISSING for other trackers."""
    if tracker.is_constant():
        return tracker.as_constant()
    if isinstance(tracker, ListVariable | TupleVariable):
        parts = [known_object(element) for element in tracker.realized()]
        return MISSING if any(part is MISSING for part in parts) else tracker.CLS(parts)
    return getattr(tracker, "value", MISSING) if isinstance(tracker, ObjectVariable) else MISSING


class GenericAliasVariable(ConstantObjectVariable):
    """``Box[int]``: calling it makes a ``Box`` that remembers the alias."""

    def __init__(self, origin: ClassVariable, alias: object) -> None:
        super().__init__(alias)
        self.origin = origin

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        if name in ("__origin__", "__args__"):
            return literal(getattr(self.value, name))
        if name == "__mro_entries__":
            return GetAttrVariable(self, name)
        return self.origin.get_attribute(evaluator, name)

    def call_method(
        self, evaluator: Evaluator, name: str, args: Arguments, kwargs: Keywords
    ) -> VariableTracker:
        if name in ("__eq__", "__ne__", "__or__", "__ror__"):
            if not args[0].is_constant():
                return NOT_IMPLEMENTED
            return fold(getattr(type(self.value), name), [self, *args])
        if name == "__mro_entries__":
            return self._bases(evaluator, args[0])
        return self.origin.call_method(evaluator, name, args, kwargs)

    def _bases(self, evaluator: Evaluator, around: VariableTracker) -> VariableTracker:
        """Return the classes that take the place of the alias among the bases of a class."""
        bases = [getattr(base, "value", MISSING) for base in around.items(evaluator)]
        if MISSING in bases:
            unsupported("class-statement", "a generic class with a base that is no known class")
        return evaluator.capture.wrap(self.value.__mro_entries__(tuple(bases)), None)

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        made = self.origin.call(evaluator, args, kwargs)
        if isinstance(made, ObjectVariable) and made.cls.__dictoffset__:
            made.set_attribute(evaluator, "__orig_class__", self)
        return made

    def reconstruct(self, residual: Residual) -> str:
        if self.origin.is_constant():
            return residual.reference(self.value, self.origin.value.__name__)
        return f"{residual.name_for(self.origin)}[{residual.reference(self.value.__args__)}]"


def new_object(evaluator: Evaluator, cls: type, args: Arguments) -> VariableTracker:
    """``object.__new__(cls)``, or ``__new__`` of the built-in container that `cls` derives from."""
    if issubclass(cls, BaseException):
        return make_exception(evaluator, cls, args)
    if issubclass(cls, torch.Tensor):
        data = CONSTRUCTORS[torch.Tensor](evaluator, *args)
        assert isinstance(data, TensorVariable)
        return new_tensor(evaluator, cls, data)
    container: VariableTracker | None = None
    if issubclass(cls, defaultdict):
        unsupported("construction", f"construction of {cls.__name__}, a defaultdict")
    if issubclass(cls, dict):
        container = DictVariable((), next(c for c in cls.__mro__ if c in (dict, OrderedDict)))
    elif issubclass(cls, list):
        container = ListVariable(())
    elif issubclass(cls, tuple):
        container = TupleVariable(operations.iterate(evaluator, args[0]) if args else ())
        if is_record(cls):
            return NamedTupleVariable(container.elements, cls, field_names(cls))
    elif not _is_plain(cls):
        unsupported("construction", f"{cls.__name__} is made by C code")
    if class_lookup(cls, "__del__")[1] is not MISSING:
        unsupported(SEES_DEATH, f"{cls.__name__} has a finalizer, which runs when it dies")
    if cls.__flags__ & _ABSTRACT:
        raise_real(object.__new__, [ConstantVariable(cls)])
    kinds = {torch.nn.Module: ModuleVariable, threading.local: ThreadLocalVariable}
    kind = next((kinds[base] for base in kinds if issubclass(cls, base)), ObjectVariable)
    made = kind(cls, container=container, capture=evaluator.capture)
    evaluator.capture.side_effects.new_object(made)
    if isinstance(container, DictVariable | ListVariable):
        evaluator.capture.side_effects.mutated(made)
    return made


_ABSTRACT = 1 << 20  # Py_TPFLAGS_IS_ABSTRACT: abstract methods are left


def _is_plain(cls: type) -> bool:
    """Return whether instances have the layout of `object`: C code adds nothing to them."""
    return allocator(cls) in (object, types.SimpleNamespace, threading.local)


def _structure(evaluator: Evaluator, cls: Any, elements: VariableTracker) -> VariableTracker:
    """Call a class such as `torch.return_types.max`, whose fields C code names."""
    values = operations.iterate(evaluator, elements)
    if len(values) != cls.n_sequence_fields:
        takes = f"{cls.__name__}() takes a {cls.n_sequence_fields}-sequence"
        raise_observed(TypeError, f"{takes} ({len(values)}-sequence given)")
    return NamedTupleVariable(values, cls, cls.__match_args__)


register_literal(type, ClassVariable)
