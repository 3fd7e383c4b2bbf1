"""Guards: each check can fail, in Python and on the guard machine; failures are explained."""

from __future__ import annotations

import gc
import math
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from minitorch2.bytecode.guards import (
    AttributeGuard,
    DictKeysMatch,
    DistinctObjects,
    DistinctStorages,
    Guard,
    KeyMatch,
    LengthMatch,
    SameObject,
    SetMatch,
    ShapeCondition,
    TensorMatch,
    TensorMetadata,
    TypeMatch,
    constant_match,
    global_state_guards,
    id_match,
)
from minitorch2.bytecode.guards.guard_function import CompiledGuards, compile_guards
from minitorch2.bytecode.guards.sources import (
    AttributeSource,
    CellSource,
    DictKeysSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    Source,
    TypeSource,
)
from minitorch2.graph.symbols import size_symbol
from minitorch2.graph.symbols.conditions import compare

A, B = LocalSource("a"), LocalSource("b")
S0, S1 = size_symbol("s0"), size_symbol("s1")


def one(a: object) -> None: ...


def two(a: object, b: object) -> None: ...


class Both:
    """Guards whose Python text, machine program and explanation always say the same."""

    def __init__(self, guards: CompiledGuards) -> None:
        self.both = guards

    def check(self, *args: object) -> bool:
        answer = self.both.check(*args)
        assert self.both.fast_check(*args) is answer
        assert (self.both.explain(*args) is None) is answer
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.both, name)


def compiled(*guards: Guard, function: Callable[..., object] = one) -> Both:
    assert isinstance(function, types.FunctionType)
    made = Both(compile_guards(guards, function))
    assert isinstance(made.fast_check, types.BuiltinFunctionType)
    return made


def tensor_match(tensor: torch.Tensor, source: Source = A) -> TensorMatch:
    return TensorMatch(source, TensorMetadata.of(tensor))


def failure(guards: CompiledGuards | Both, *args: object) -> str:
    explained = guards.explain(*args)
    assert explained is not None
    return explained.what


class Subclass(torch.Tensor):
    pass


BASE = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("class", torch.nn.Parameter(BASE, requires_grad=False)),
        ("dtype", BASE.double()),
        ("device", BASE.to("meta")),
        ("requires_grad", BASE.clone().requires_grad_()),
        ("sizes", torch.zeros(2, 4)),
        ("sizes", torch.zeros(2, 3, 1)),
        ("strides", torch.zeros(3, 2).t()),
        ("dispatch keys", torch._neg_view(BASE.clone())),
    ],
)
def test_each_tensor_check_fails_alone(what: str, other: torch.Tensor) -> None:
    guards = compiled(tensor_match(BASE))
    assert guards.check(torch.ones(2, 3)) and guards.explain(torch.ones(2, 3)) is None
    assert not guards.check(other)
    assert failure(guards, other) == what


def test_ndim_and_static_sizes_of_a_dynamic_tensor() -> None:
    metadata = TensorMetadata.of(BASE, dynamic_dims=frozenset({0}))
    guards = compiled(TensorMatch(A, metadata))
    assert guards.check(torch.zeros(7, 3))
    assert failure(guards, torch.zeros(7, 3, 1)) == "ndim"
    assert failure(guards, torch.zeros(7, 4)) == "size of dimension 1"


def test_inference_tensor_is_not_a_normal_tensor() -> None:
    with torch.inference_mode():
        inference = torch.zeros(2, 3)
    assert failure(compiled(tensor_match(BASE)), inference) == "dispatch keys"


def test_subclass_is_refused() -> None:
    assert failure(compiled(tensor_match(BASE)), BASE.as_subclass(Subclass)) == "class"


def parameter_match(p: torch.Tensor) -> Both:
    return compiled(TensorMatch(A, TensorMetadata.of(p)))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("dtype", lambda p: setattr(p, "data", p.data.double())),
        ("device", lambda p: setattr(p, "data", p.data.to("meta"))),
        ("requires_grad", lambda p: p.requires_grad_(False)),
        ("sizes", lambda p: setattr(p, "data", p.data[:1])),
        ("strides", lambda p: setattr(p, "data", p.data.t())),
    ],
)
def test_parameter_changed_under_its_identity(
    what: str, change: Callable[[torch.Tensor], None]
) -> None:
    p = torch.nn.Parameter(torch.randn(3, 3))
    guards = parameter_match(p)
    assert guards.check(p)
    try:
        change(p)
    except RuntimeError:
        pytest.skip("PyTorch forbids this change")
    assert failure(guards, p) == what and not guards.check(p)


CONSTANTS = [0, 1, True, False, 0.0, -0.0, 1.0, math.nan, "1", b"1", None, ..., 1j, -1j, 0j]
CONSTANTS += [torch.float32, torch.strided, torch.device("cpu"), torch.Size([1]), (1,), 2**80]


@pytest.mark.parametrize("expected", CONSTANTS, ids=repr)
def test_constants_match_only_themselves(expected: object) -> None:
    guards = compiled(constant_match(A, expected))
    matching = [other for other in CONSTANTS if guards.check(other)]
    assert [repr(other) for other in matching] == [repr(expected)]
    assert type(matching[0]) is type(expected)


def test_constants_are_deduplicated_by_type_and_sign() -> None:
    distinct = {constant_match(A, v) for v in (0, False, 0.0, -0.0, math.nan, float("nan"))}
    assert len(distinct) == 5


def test_identity_type_length_keys_set() -> None:
    function = lambda: None  # noqa: E731
    identity = compiled(id_match(A, function))
    assert identity.check(function) and not identity.check(lambda: None)
    typed = compiled(TypeMatch(A, int))
    assert typed.check(3) and not typed.check(True)
    length = compiled(LengthMatch(A, 2))
    assert length.check([1, 2]) and not length.check([1]) and not length.check(5)
    keys = compiled(DictKeysMatch(A, ("x", 1)))
    assert keys.check({"x": 0, 1: 0}) and not keys.check({1: 0, "x": 0})
    assert not keys.check({"x": 0, True: 0})
    elements = compiled(SetMatch(A, (0, 8)))
    assert elements.check({0, 8}) and not elements.check({0})
    assert not elements.check({8, 0}) and not elements.check({False, 8})
    absent = compiled(KeyMatch(A, "x", False))
    assert absent.check({}) and not absent.check({"x": 1})


def test_attributes_present_and_absent() -> None:
    with_x = types.SimpleNamespace(x=1)
    present = compiled(AttributeGuard(A, "x", True))
    assert present.check(with_x) and not present.check(types.SimpleNamespace())
    absent = compiled(AttributeGuard(A, "x", False))
    assert absent.check(types.SimpleNamespace()) and failure(absent, with_x) == "attribute x"


def test_aliasing_relations() -> None:
    x, y = torch.zeros(4), torch.zeros(4)
    same = compiled(SameObject(A, B), function=two)
    assert same.check(x, x) and not same.check(x, y)
    distinct = compiled(DistinctObjects((A, B)), function=two)
    assert distinct.check(x, y) and failure(distinct, x, x) == "distinct"
    storages = compiled(DistinctStorages((A, B)), function=two)
    assert storages.check(x, y) and not storages.check(x, x[1:])


def test_shape_condition() -> None:
    sizes = tuple(
        (symbol, ItemSource(AttributeSource(source, "shape"), 0))
        for symbol, source in ((S0, A), (S1, B))
    )
    guards = compiled(ShapeCondition(compare(">", S0 + S1, 2), sizes), function=two)
    assert guards.check(torch.zeros(2), torch.zeros(1))
    assert failure(guards, torch.zeros(1), torch.zeros(1)) == "shape"


@pytest.mark.parametrize(
    ("what", "enter"),
    [
        ("grad mode", torch.no_grad),
        ("inference mode", torch.inference_mode),
        ("autocast", lambda: torch.autocast("cpu")),
        ("function modes", lambda: torch.device("meta")),
    ],
)
def test_global_state(what: str, enter: Callable[[], object]) -> None:
    guards = compiled(*global_state_guards())
    assert guards.check(0)
    with enter():  # type: ignore[attr-defined]
        assert not guards.check(0)
        if what != "inference mode":  # inference mode turns the grad mode off as well
            assert failure(guards, 0) == what
    assert guards.check(0)


def test_autocast_dtype() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        guards = compiled(*global_state_guards())
        assert guards.check(0)
        with torch.autocast("cpu", dtype=torch.float16):
            assert failure(guards, 0) == "autocast"
    assert failure(guards, 0) == "autocast"


def test_default_dtype_and_determinism() -> None:
    guards = compiled(*global_state_guards())
    torch.set_default_dtype(torch.float64)
    try:
        assert failure(guards, 0) == "default dtype"
    finally:
        torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        assert failure(guards, 0) == "deterministic algorithms"
    finally:
        torch.use_deterministic_algorithms(False)


def test_equal_guards_are_one() -> None:
    guards = compiled(
        tensor_match(BASE), tensor_match(BASE.clone()), id_match(B, torch), function=two
    )
    assert [str(g) for g in guards.guards] == ["TENSOR_MATCH a", "FUNCTION_MATCH b"]


def test_access_paths_are_shared() -> None:
    source: Source = A
    guards: list[Guard] = []
    chain = value = types.SimpleNamespace(next=None)
    for i in range(50):
        value.payload, value.next = i, types.SimpleNamespace(next=None)
        guards.append(constant_match(AttributeSource(source, "payload"), i))
        source, value = AttributeSource(source, "next"), value.next
    made = compiled(*guards)
    assert made.check(chain)
    assert made.source.count(".next") == 49  # one step a link, not n*n/2


def test_a_broken_path_fails_instead_of_raising() -> None:
    guards = compiled(constant_match(ItemSource(AttributeSource(A, "x"), "k"), 1))
    assert guards.check(types.SimpleNamespace(x={"k": 1}))
    for broken in (3, types.SimpleNamespace(x={}), types.SimpleNamespace(x=None)):
        assert not guards.check(broken) and guards.explain(broken) is not None


def test_keys_without_literals_are_loaded_by_position() -> None:
    key = object()
    guards = compiled(id_match(ItemSource(DictKeysSource(A), 0), key))
    assert guards.check({key: 1}) and not guards.check({object(): 1})


def test_globals_and_cells_of_the_function() -> None:
    def outer(y: int) -> types.FunctionType:
        def inner(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> int:
            return a + y

        return inner  # type: ignore[return-value]

    five, six = outer(5), outer(6)
    guards = [constant_match(CellSource("y"), 5), constant_match(LocalSource("c"), 3)]
    made = compile_guards([*guards, id_match(GlobalSource("torch"), torch)], five)
    assert made.check(1) and made.check(1, 2, 4, c=3, d=9) and not made.check(1, c=4)
    other = made.bind(six)
    assert not other.check(1) and failure(other, 1) == "constant"
    assert made.bind(outer(5)).check(1)


def test_builtins_are_the_real_ones_whatever_the_module_defines() -> None:
    code = compile("def f(a): ...", "user.py", "exec")
    module: dict[str, object] = {}
    exec(code, module)
    value, limits = Subclass.__new__(Subclass), [1, 2]
    guards = [
        TypeMatch(A, Subclass),
        id_match(A, value),
        AttributeGuard(A, "missing", False),
        TypeMatch(TypeSource(A), type(Subclass)),
        constant_match(AttributeSource(A, "not a name"), 0.0),
        LengthMatch(GlobalSource("_len_0"), 2),
    ]
    setattr(value, "not a name", 0.0)
    module["_len_0"] = limits
    wrong = lambda *_: pytest.fail("a builtin of the user's module")  # noqa: E731
    for name in ("type", "id", "len", "hasattr", "getattr", "repr", "TypeError", "LookupError"):
        module[name] = wrong
    function = module["f"]
    assert isinstance(function, types.FunctionType)
    made = compile_guards(guards, function)
    assert made.check(value)
    assert not made.check(3) and made.explain(3) is not None
    limits.append(3)
    assert failure(made, value) == "length"


def test_watched_objects_are_those_known_by_id() -> None:
    class Local:
        pass

    value = Local()
    guards = compiled(id_match(A, value), id_match(A, torch), id_match(A, len), id_match(A, int))
    assert guards.watched() == [value]
    del value
    gc.collect()
    assert guards.watched() == [], "a guard keeps nothing alive"


def test_explanation_names_expected_and_actual() -> None:
    explained = compiled(tensor_match(BASE)).explain(torch.zeros(2, 4))
    assert "sizes was (2, 3), now (2, 4)" in str(explained)


class Mute:
    """An object whose text cannot be made."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_values_without_a_text_are_explained() -> None:
    explained = compiled(id_match(A, torch)).explain(Mute())
    assert explained is not None
    assert "Mute object at" in explained.actual
