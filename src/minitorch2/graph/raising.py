"""Operators that raise because of the values of tensors, which are unknown while compiling.

Shapes, dtypes and numbers are checked when an operator runs on fake tensors. The tables here list
the operators of PyTorch's dispatcher that raise because of values. A node that calls one of them
runs even if its result is unread. If it raises, the frame runs again in Python (`rerun`).

The tables were found by experiment: `tests/operators/error_sweep.py` runs each of PyTorch's
operators on extreme values, its result unread, and compares what is raised with eager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch

from minitorch2.graph.effects import argument_of, bare_name, is_impure, is_known_pure
from minitorch2.graph.higher_order import HigherOrder
from minitorch2.graph.node import Node, map_nodes
from minitorch2.native.torch_internals.operators import OpOverload as Operator

_PLACES: Final = """
    index index_add index_copy index_fill index_put _index_put_impl index_reduce index_select
    gather put take scatter scatter_add scatter_reduce embedding embedding_renorm _embedding_bag
    _embedding_bag_forward_only nll_loss_forward nll_loss2d_forward multi_margin_loss
    multilabel_margin_loss_forward _ctc_loss max_unpool2d max_unpool3d searchsorted
    fractional_max_pool2d fractional_max_pool3d lu_unpack _pack_padded_sequence
""".split()  # noqa: SIM905  (reads as a table)
"""They read or write at positions that a tensor holds."""
_COUNTS: Final = ["bincount", "repeat_interleave", "segment_reduce", "masked_scatter"]
"""They count with what a tensor holds."""
_DOMAINS: Final = """
    binary_cross_entropy bernoulli multinomial normal poisson binomial histc histogram
    _histogramdd_bin_edges _histogramdd_from_bin_cts _fake_quantize_learnable_per_channel_affine
    fake_quantize_per_channel_affine_cachemask
""".split()  # noqa: SIM905
"""They are defined for some numbers only: probabilities, deviations, finite numbers."""
_EQUATIONS: Final = """
    cholesky cholesky_inverse _linalg_eigh _linalg_eigvals _linalg_svd linalg_eig linalg_eigvals
    linalg_lstsq linalg_pinv linalg_ldl_solve linalg_lu_solve
""".split()  # noqa: SIM905
"""Their equations may have no solution, or their iterations no limit."""
_RAISING: Final = frozenset([*_PLACES, *_COUNTS, *_DOMAINS, *_EQUATIONS])
_DIVISIONS: Final = frozenset(
    ["div", "floor_divide", "remainder", "fmod", "floordiv", "mod", "divide"]
)
_WHOLE_PROGRAMS: Final = frozenset(
    ["inverse", "pinverse", "one_hot", "nll_loss", "cross_entropy", "embedding_bag"]
)
"""Functions made of operators above, in graphs that were not captured here."""


def operator_raises(func: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether the values of tensors may make a call raise, all else being right.

    Args:
        func: the operator.
        args: its arguments; tensors may be fake.
        kwargs: the same by name.
    """
    name = _name(func)
    if name in _RAISING or is_assertion(func):
        return True
    if name in _DIVISIONS:
        return _divides_integers([*args, *kwargs.values()])
    return argument_of(func, "check_errors", args, kwargs) is True


@cache
def _name(func: Operator) -> str:
    return str(func._schema.name.split("::")[1]).removesuffix("_")


@cache
def is_assertion(func: Operator) -> bool:
    """Return whether an operator only checks: it returns nothing and writes to nothing.

    ``_assert_tensor_metadata`` does not count: its answer is known while compiling.
    """
    is_silent = not func._schema.returns and not func._schema.is_mutable
    return is_silent and func.namespace == "aten" and _name(func) != "_assert_tensor_metadata"


def _divides_integers(operands: Sequence[Any]) -> bool:
    """Return whether integers may be divided by 0, which raises."""
    numbers = [value for value in operands if not isinstance(value, str)]
    divisor = numbers[1] if len(numbers) > 1 else None
    if isinstance(divisor, int) and divisor != 0:
        return False
    return not any(map(_is_floating, numbers))


def _is_floating(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, (float, complex, torch.SymFloat))


def may_raise(node: Node) -> bool:
    """Return whether the values of tensors, not just shapes and types, may make a node raise."""
    if not node.op.startswith("call"):
        return False
    if isinstance(node.target, HigherOrder):
        return any(map(may_raise, node.target.nodes()))
    if node.op == "call_module" or not is_known_pure(node):
        return True
    if isinstance(node.target, Operator):
        values = map_nodes((node.args, dict(node.kwargs)), lambda read: read.meta.get("val"))
        return operator_raises(node.target, *values)
    known: bool | None = node.meta.get("raises")
    return _function_raises(node) if known is None else known


def _function_raises(node: Node) -> bool:
    """Return the same for a function or method of PyTorch's interface, by its name."""
    name = bare_name(node).removesuffix("_")
    if name in _DIVISIONS:
        return _divides_integers([_value(argument) for argument in node.args])
    is_listed = name in _RAISING or name in _WHOLE_PROGRAMS
    return is_listed or "linalg" in str(node.target)


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def is_marked(node: Node) -> bool:
    """Return whether capture has marked a node: it has an effect, or it may raise."""
    return bool(node.meta.get("impure") or node.meta.get("raises"))


def must_run(node: Node) -> bool:
    """Return whether a node runs even if its value is unread: it has an effect, or may raise."""
    return is_impure(node) or may_raise(node)
