"""Methods and operators of `torch.Tensor` that a program replaces after it has been compiled."""

import operator
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.guards import tensor_class
from minitorch2.native.cpython import class_versions
from tests.unit.bytecode.soundness.processes import run

X = torch.tensor([[0.5, -1.5], [2.0, 3.0]])
Program = Callable[[torch.Tensor], object]
ADD = torch.Tensor.__add__


def unary(self: torch.Tensor) -> torch.Tensor:
    return torch.sin(self)


def binary(self: torch.Tensor, other: Any) -> torch.Tensor:
    return torch.sub(torch.mul(self, 3), 5)


CAPTURED: dict[str, tuple[Program, Any]] = {
    "__add__": (lambda x: x + 1, binary),
    "__radd__": (lambda x: 1 + x, binary),
    "__iadd__": (lambda x: operator.iadd(x.clone(), 1), binary),
    "__sub__": (lambda x: x - 1, binary),
    "__mul__": (lambda x: x * 2, binary),
    "__rsub__": (lambda x: 2 - x, binary),
    "__matmul__": (lambda x: x @ x, binary),
    "__truediv__": (lambda x: x / 2, binary),
    "__pow__": (lambda x: x**2, binary),
    "__neg__": (lambda x: -x, unary),
    "__abs__": (lambda x: abs(x), unary),
    "__invert__": (lambda x: ~(x > 0), unary),
    "__lt__": (lambda x: x < 1, binary),
    "__gt__": (lambda x: x > 1, binary),
    "__eq__": (lambda x: x == 1, binary),
    "__getitem__": (lambda x: x[0], binary),
    "__setitem__": (lambda x: operator.setitem(y := x.clone(), 0, 1.0) or y, lambda *_: None),
    "__len__": (lambda x: x * len(x), lambda self: 77),
    "__iter__": (lambda x: next(iter(x)), lambda self: iter([torch.sin(self)])),
    "__reversed__": (lambda x: reversed(x), unary),
    "__float__": (lambda x: torch.mul(x, float(x.sum())), lambda self: 3.0),
    "__enter__": (lambda x: x.sin() if hasattr(x, "__enter__") else x.cos(), unary),
    "relu": (lambda x: x.relu(), unary),
    "T": (lambda x: x.T, property(unary)),
    "is_leaf": (lambda x: x * x.is_leaf, property(lambda self: 5)),
}


def given(name: str, method: Any) -> Any:
    return mock.patch.object(torch.Tensor, name, method, create=True)


def same(one: object, other: object) -> bool:
    return torch.Tensor.equal(one, other) if isinstance(one, torch.Tensor) else one == other


LASTING = ("__getitem__", "__setitem__", "__len__")
"""A class that had its own method of this name keeps the C slot: `torch.tensor([scalar])` fails."""


@pytest.mark.parametrize("name", CAPTURED)
def test_a_replaced_method_is_noticed_and_captured(name: str) -> None:
    if name in LASTING:
        run(f"import {__name__} as tests; tests.replace_and_restore({name!r})", preamble="")
    else:
        replace_and_restore(name)


def replace_and_restore(name: str) -> None:
    program, method = CAPTURED[name]
    fast = minitorch2.compile(program, backend="eager", fullgraph=True)
    with stages.collect() as log:
        assert same(fast(X), program(X))
        first = log.counts["graphs"]
        with given(name, method):
            assert same(fast(X), program(X))
            both = log.counts["graphs"]
            fast(X)
        assert same(fast(X), program(X))
    assert (first, both, log.counts["graphs"]) == (1, 2, 2)


LEFT: dict[str, tuple[str, Program, Any]] = {
    "the method as it was": ("__add__", lambda x: x + 1, lambda s, o: torch.sin(ADD(s, o))),
    "another method of PyTorch's": ("__add__", lambda x: x + 1, torch.Tensor.__sub__),
    "divmod": ("__divmod__", lambda x: divmod(x, 2), binary),
    "missing attributes": ("__getattr__", lambda x: hasattr(x, "other"), lambda self, name: 1),
    "writes": ("__setattr__", lambda x: (setattr(x, "y", 1), hasattr(x, "y")), lambda *_: None),
}


@pytest.mark.parametrize("case", LEFT)
def test_a_replaced_method_is_noticed_and_left_to_python(case: str) -> None:
    name, program, method = LEFT[case]
    fast = minitorch2.compile(program, backend="eager")

    def outcome(call: Program) -> object:
        try:
            return call(X.clone())
        except TypeError as error:
            return str(error)

    assert same(outcome(fast), outcome(program))
    with given(name, method):
        assert same(outcome(fast), outcome(program))
    assert same(outcome(fast), outcome(program))


DISGUISES: dict[str, Any] = {
    "shape": property(lambda self: torch.Size([1, 1])),
    "size": lambda self, dim=None: 1 if dim else torch.Size([1, 1]),
    "stride": lambda self, dim=None: 1 if dim else (1, 1),
    "ndim": property(lambda self: 5),
    "dtype": property(lambda self: torch.float64),
    "is_contiguous": lambda self, **options: False,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", DISGUISES)
def test_a_frame_runs_in_python_while_tensors_lie_about_themselves(
    name: str, dynamic: bool
) -> None:
    """Kernels were made for tensors of one element, and stayed in the cache on disk."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum(0) * x.shape[0] + x

    def outcome(call: Any) -> list[torch.Tensor]:
        x = X.clone().requires_grad_()
        y = call(x)
        y.sum().backward()
        assert x.grad is not None
        return [y.detach(), x.grad]

    before, after = (minitorch2.compile(program, dynamic=dynamic) for _ in range(2))
    outcome(before)
    with stages.collect() as log:
        with given(name, DISGUISES[name]):
            disguised = [outcome(call) for call in (program, before, after)]
            wanted, *others = [[each.tolist() for each in found] for found in disguised]
            assert others == [wanted, wanted]
            with pytest.raises(minitorch2.errors.GraphBreakError, match=f"Tensor.{name}"):
                minitorch2.compile(program, fullgraph=True)(X)
        torch.testing.assert_close(outcome(before), outcome(program))
    assert log.counts["graphs"] == 0


def test_kernels_do_not_serve_a_replaced_operator() -> None:
    fast = minitorch2.compile(CAPTURED["__add__"][0])
    assert torch.equal(fast(X), X + 1)
    with given("__add__", binary):
        assert torch.allclose(fast(X), X + 1)
    assert torch.equal(fast(X), X + 1)


def test_attributes_of_the_programs_own_compile_nothing_again() -> None:
    fast = minitorch2.compile(lambda x: x + 1, backend="eager")
    with stages.collect() as log:
        fast(X)
        with given("colour", "blue"):
            fast(X)
        fast(X)
    assert log.counts["graphs"] == 1


def test_the_version_of_a_class_is_found_on_this_interpreter() -> None:
    """Without it guards compare all attributes in each call."""
    assert class_versions.VERSION
    assert tensor_class.replaced_attributes() == ()
    assert all(cls.seen.value != class_versions.NEVER for cls in tensor_class._SEEN)
