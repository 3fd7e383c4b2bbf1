"""The three handlers of guards agree, for every kind of guard, whatever they are asked about.

A guard is made of values and settings as they are. Then its printed condition, the machine and the
explanation are asked about other values, under other settings.
"""

import collections
import logging
import math
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from torch import nn

from minitorch2.bytecode.guards import (
    Guard,
    constant_match,
    containers,
    global_state_guards,
    id_match,
    relations,
    tensors,
    torch_state,
    values,
)
from minitorch2.bytecode.guards.accumulators import NoAccumulatorHooks
from minitorch2.bytecode.guards.class_version import ClassMatch, kind_of
from minitorch2.bytecode.guards.guard_function import compile_guards
from minitorch2.bytecode.guards.overrides import classes_have_overrides
from minitorch2.bytecode.guards.shapes import Contiguous, ShapeCondition
from minitorch2.bytecode.guards.sources import AttributeSource, ItemSource, LocalSource
from minitorch2.bytecode.guards.tensor_class import TensorClass, replaced_attributes
from minitorch2.bytecode.trackers.python_values.warning_rules import WarningIsError
from minitorch2.bytecode.trackers.torch_values.branches import TruthOfBuffers
from minitorch2.bytecode.trackers.torch_values.nn_module import (
    GlobalHooks,
    NoHooks,
    hooks_of_all_modules,
)
from minitorch2.graph.symbols import size_symbol
from minitorch2.graph.symbols.conditions import compare
from minitorch2.native.torch_internals.tensor_metadata import TensorMetadata
from tests.unit.autograd.test_wrappers import TwoTensor

A, B = LocalSource("a"), LocalSource("b")


def guarded(a: Any, b: Any) -> None:
    """The function whose parameters are guarded."""


class Plain:
    """A class that a setting gives special methods."""


def first(x: Any) -> Any:
    return x


def second(x: Any) -> Any:
    return x


def with_other_code(x: Any) -> Any:
    return x


def cell_of(*content: Any) -> types.CellType:
    return types.CellType(*content)


def hooked() -> nn.Module:
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: None)
    return module


ITERATORS = [iter([]), iter([1]), iter([1, 2]), iter((3, 4))]
LOGGERS = [logging.getLogger(f"{__name__}.{level}") for level in (10, 20, 40)]
for logger, level in zip(LOGGERS, (10, 20, 40), strict=True):
    logger.setLevel(level)
CELLS = [cell_of(), cell_of(1), cell_of(None)]
MODULES = [nn.Linear(2, 2), hooked(), nn.ReLU()]
CONTAINERS: list[Any] = [
    [], [1], [True], [1.0], [0.0], [-0.0], [1, 2], [2, 1], (1,), ((1,),), [(1,)], [(True,)], "a",
    {}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {1: 0}, {True: 0}, {0.0: 1}, {-0.0: 1},
    {(1,): 0}, {(True,): 0}, {1, 2}, {1}, {True}, {"a"}, {0.0}, {-0.0}, frozenset({"a"}),
    collections.OrderedDict(a=1), collections.OrderedDict(b=2, a=1), {first: 1}, {int, str},
]  # fmt: skip
CONSTANTS: list[Any] = [
    0, 1, 2, True, False, 0.0, -0.0, 1.0, math.nan, math.inf, 0j, -0j, 1j, "", "a", b"a", None, ...,
    2**70, torch.float32, torch.strided, torch.device("cpu"), torch.Size([1]), (1,), (1.0,),
    range(3), range(0), range(1, 1), slice(1), int, bool,
]  # fmt: skip
OBJECTS = [first, second, with_other_code, torch, Plain, Plain(), types.SimpleNamespace(x=1), len]
BASE = torch.zeros(2, 3)
LEAF = torch.zeros(2, 3, requires_grad=True)
HOOKED = torch.zeros(2, 3, requires_grad=True)
HOOKED_NODE = HOOKED.expand_as(HOOKED).grad_fn.next_functions[0][0]
HOOKED_NODE.register_hook(lambda *_: None)
with torch.inference_mode():
    INFERENCE = torch.zeros(2, 3)
TENSORS: list[Any] = [
    BASE, BASE[:], BASE[1:], BASE.t(), BASE.expand(4, 2, 3), torch.zeros(2, 3), torch.zeros(3, 2),
    torch.zeros(3, 2).t(), torch.zeros(2, 4)[:, ::2], torch.zeros(2, 1), torch.zeros(2),
    torch.zeros(()), torch.zeros(0, 3), torch.zeros(2, 3).double(), torch.zeros(2, 3).int(),
    torch.zeros(2, 3, device="meta"), torch.zeros(2, 3, dtype=torch.complex64).conj(),
    torch.zeros(2, 3, dtype=torch.float8_e5m2), torch._neg_view(BASE), LEAF, HOOKED, LEAF.detach(),
    LEAF * 2, LEAF[:1], nn.Parameter(torch.zeros(2, 3)), INFERENCE, torch.zeros(1, 1, 1, 1, 2, 3),
]  # fmt: skip
WRAPPERS = [TwoTensor(x, x) for x in (BASE, torch.zeros(2, 3), torch.zeros(3, 2), BASE.double())]
POOLS = {
    "constants": CONSTANTS, "containers": CONTAINERS, "objects": OBJECTS, "modules": MODULES,
    "tensors": TENSORS, "wrappers": WRAPPERS, "iterators": ITERATORS, "loggers": LOGGERS,
    "cells": CELLS,
}  # fmt: skip
EVERYTHING = [value for pool in POOLS.values() for value in pool]
CODE = second.__code__
SETTINGS = (torch.set_float32_matmul_precision, torch.get_float32_matmul_precision)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def called(change: Callable[[Any], None], value: Any, before: Any) -> Iterator[None]:
    change(value)
    try:
        yield
    finally:
        change(before)


@contextmanager
def removed(handle: Any) -> Iterator[None]:
    with handle:
        yield


@contextmanager
def errors_of_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


WORLDS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to half": lambda: torch.autocast("cpu", dtype=torch.float16),
    "device": lambda: torch.device("meta"),
    "dtype": lambda: default_dtype(torch.float64),
    "deterministic": lambda: called(torch.use_deterministic_algorithms, True, False),
    "precision": lambda: called(SETTINGS[0], "medium", "highest"),
    "no overrides": torch._C.DisableTorchFunctionSubclass,
    "hooks": lambda: removed(nn.modules.module.register_module_forward_hook(lambda *_: None)),
    "class": lambda: mock.patch.object(Plain, "__add__", first, create=True),
    "class of tensors": lambda: mock.patch.object(torch.Tensor, "__matmul__", first),
    "code": lambda: called(partial(setattr, second, "__code__"), with_other_code.__code__, CODE),
    "warnings": errors_of_warnings,
}


def state(kind: type[Guard]) -> Callable[[Any, Any], Guard]:
    """The guard of this kind among those that every entry has."""
    return lambda a, b: next(guard for guard in global_state_guards() if type(guard) is kind)


def metadata_of(tensor: Any) -> TensorMetadata:
    """The metadata; the first size may vary where it is 2."""
    varying = frozenset({0}) if tensor.dim() > 1 and tensor.shape[0] == 2 else frozenset()
    return TensorMetadata.of(tensor, varying)


def sizes(a: Any, b: Any) -> Guard:
    symbols = size_symbol("s0"), size_symbol("s1")
    places = tuple(ItemSource(AttributeSource(source, "shape"), 0) for source in (A, B))
    condition = compare("<=", symbols[0] * 2, symbols[1] + len(a.shape))
    return ShapeCondition(condition, tuple(zip(symbols, places, strict=True)))


def truth(a: Any, b: Any) -> Guard:
    is_matrix: Any = lambda x: [x.dim() == 2]  # noqa: E731
    return TruthOfBuffers((A,), "", is_matrix(a)[0], is_matrix)


def wrapped(a: Any, b: Any) -> Guard:
    context = a.__tensor_flatten__()[1]
    return tensors.WrapperMatch(A, ("a", "b"), context, TensorMetadata.of(a))


def warning(a: Any, b: Any) -> Guard:
    return WarningIsError("text", UserWarning, None, None, values.is_permanent(None))


MAKERS: dict[type[Guard], tuple[str, Callable[[Any, Any], Guard]]] = {
    values.IdMatch: ("objects", lambda a, b: id_match(A, a)),
    values.TypeMatch: ("objects", lambda a, b: values.TypeMatch(A, type(a))),
    values.ConstantMatch: ("constants", lambda a, b: constant_match(A, a)),
    values.NoneMatch: ("constants", lambda a, b: values.NoneMatch(A)),
    values.LoggerDisabled: ("loggers", lambda a, b: values.LoggerDisabled(A, 20)),
    containers.LengthMatch: ("containers", lambda a, b: containers.LengthMatch(A, len(a))),
    containers.Remaining: (
        "iterators", lambda a, b: containers.Remaining(A, a.__length_hint__())
    ),
    containers.SetMatch: ("containers", lambda a, b: containers.SetMatch(A, tuple(a))),
    containers.DictKeysMatch: ("containers", lambda a, b: containers.DictKeysMatch(A, tuple(a))),
    containers.KeyMatch: ("containers", lambda a, b: containers.KeyMatch(A, "a", "a" in a)),
    containers.EmptyCell: ("cells", lambda a, b: containers.EmptyCell(A)),
    containers.AttributeGuard: (
        "objects", lambda a, b: containers.AttributeGuard(A, "x", hasattr(a, "x"))
    ),
    tensors.TensorMatch: ("tensors", lambda a, b: tensors.TensorMatch(A, metadata_of(a))),
    tensors.WrapperMatch: ("wrappers", wrapped),
    NoAccumulatorHooks: ("tensors", lambda a, b: NoAccumulatorHooks(A)),
    relations.SameObject: ("objects", lambda a, b: relations.SameObject(A, B)),
    relations.DistinctObjects: ("objects", lambda a, b: relations.DistinctObjects((A, B))),
    relations.DistinctStorages: ("tensors", lambda a, b: relations.DistinctStorages((A, B))),
    relations.StorageSize: (
        "tensors",
        lambda a, b: relations.StorageSize(A, None if b is BASE else relations.storage_bytes(a)),
    ),
    relations.MemoryPattern: (
        "tensors", lambda a, b: relations.MemoryPattern((A, B), relations.memory_pattern(a, b))
    ),
    TruthOfBuffers: ("tensors", truth),
    ShapeCondition: ("tensors", sizes),
    Contiguous: ("tensors", lambda a, b: Contiguous(A, a.dim())),
    ClassMatch: ("objects", lambda a, b: ClassMatch(values.hold(Plain), kind_of(Plain))),
    TensorClass: ("constants", lambda a, b: TensorClass(replaced_attributes())),
    NoHooks: ("modules", lambda a, b: NoHooks(A)),
    GlobalHooks: ("modules", lambda a, b: GlobalHooks(hooks_of_all_modules())),
    WarningIsError: ("constants", warning),
    torch_state.GradMode: ("constants", state(torch_state.GradMode)),
    torch_state.GlobalState: ("constants", state(torch_state.GlobalState)),
    torch_state.Autocasts: ("constants", state(torch_state.Autocasts)),
    torch_state.DefaultDevice: (
        "constants", lambda a, b: torch_state.DefaultDevice(torch_state.device_of_modes())
    ),
    torch_state.OverridesOfClasses: (
        "constants", lambda a, b: torch_state.OverridesOfClasses(classes_have_overrides())
    ),
    torch_state.Setting: (
        "constants", lambda a, b: torch_state.Setting(SETTINGS[1], (), repr(SETTINGS[1]()))
    ),
}  # fmt: skip
"""For each kind of guard the values that it is made of, and how."""
RELATIONS = (
    values.NoneMatch, values.LoggerDisabled, containers.EmptyCell, NoAccumulatorHooks,
    relations.SameObject, relations.DistinctObjects, relations.DistinctStorages,
    relations.StorageSize, ShapeCondition, Contiguous, NoHooks, WarningIsError,
)  # fmt: skip
"""The kinds that say something which need not be true of the values that they are made of."""
Call = tuple[Any, Any, str]


@st.composite
def questions(draw: st.DrawFn) -> tuple[type[Guard], Call, list[Call]]:
    """A kind of guard, the values and the world that it is made in, and those it is asked in."""
    kind = draw(st.sampled_from(list(MAKERS)))
    like = st.sampled_from(POOLS[MAKERS[kind][0]])
    other = st.one_of(like, like, st.sampled_from(EVERYTHING))
    worlds = st.sampled_from(list(WORLDS))
    made = draw(st.tuples(like, like, worlds))
    call = st.tuples(other, other, worlds | st.just(made[2]))
    return kind, made, [made, *draw(st.lists(call, min_size=1, max_size=6))]


def guards_of(kind: type[Guard], a: Any, b: Any) -> list[Guard]:
    """The guard, behind those that say what tensors it is about."""
    pool, make = MAKERS[kind]
    if kind is ShapeCondition:
        assume(a.dim() and b.dim())
    about = ((A, a), (B, b)) if pool == "tensors" else ()
    return [*(tensors.TensorMatch(s, metadata_of(x)) for s, x in about), make(a, b)]


def answer(ask: Callable[..., object], a: Any, b: Any) -> object:
    """What a handler answers: True or False, or the error that the value itself raises."""
    try:
        return ask(a, b)
    except (RuntimeError, NotImplementedError) as error:
        return type(error)


@given(questions())
@example((containers.SetMatch, ({0.0}, 0, "plain"), [({-0.0}, 0, "plain")]))
@example((containers.SetMatch, ({(1,)}, 0, "plain"), [({(True,)}, 0, "plain")]))
@example((containers.DictKeysMatch, ({"a": 1}, 0, "plain"), [({"b": 2}, 0, "plain")]))
def test_text_machine_and_explanation_agree(asked: tuple[type[Guard], Call, list[Call]]) -> None:
    kind, (a, b, world), calls = asked
    with WORLDS[world]():
        guards = compile_guards(guards_of(kind, a, b), guarded)
        machine, text = guards.program.bind(guarded), guards.check
        assert machine is not None
        assert text(a, b) is True or issubclass(kind, RELATIONS)
    for x, y, name in calls:
        with WORLDS[name]():
            said = answer(text, x, y)
            assert answer(machine, x, y) is said, guards.source
            explained = answer(guards.explain, x, y)
        assert (explained is None) is (said is True)
        if said is False:
            assert explained.what in {c.what for g in guards.guards for c in g.checks()}
            assert explained.expected != explained.actual


def test_every_kind_of_guard_is_asked_about() -> None:
    def leaves(cls: type[Guard]) -> Iterator[type[Guard]]:
        children = cls.__subclasses__()
        yield from (leaf for child in children for leaf in leaves(child)) if children else [cls]

    assert set(leaves(Guard)) == set(MAKERS)
