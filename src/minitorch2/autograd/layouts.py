"""Memory layouts equal to eager's for the results of decompositions.

A tensor's strides decide whether it can be viewed with another shape, so an eager program relies on
the strides of results. Decompositions do not preserve strides. Their results are laid out anew
where the operator itself would have chosen another layout.
"""

from __future__ import annotations

from typing import Any

import torch

from minitorch2.autograd.schemas import alias_facts
from minitorch2.graph.fake_tensor import FakeTensor, run_fake
from minitorch2.graph.memory_order import memory_order
from minitorch2.graph.symbols import same_sizes
from minitorch2.graph.symbols.unbacked import is_dense
from minitorch2.native.torch_internals.operators import OpOverload as Operator
from minitorch2.native.torch_internals.pytree import tree_leaves, tree_map

aten = torch.ops.aten


def own_results(func: Operator, args: Any, kwargs: Any) -> Any:
    """Return the operator's own results on fake tensors, to compare a decomposition's layouts.

    None where no comparison is needed: contiguous arguments have contiguous results in both.
    """
    facts = alias_facts(func)
    arguments = [x for x in tree_leaves((args, kwargs)) if isinstance(x, FakeTensor)]
    if facts.is_view or facts.written or all(map(is_dense, arguments)):
        return None
    try:
        return run_fake(func, args, kwargs)
    except (RuntimeError, NotImplementedError):  # it has no kernel for fake tensors
        return None


def all_laid_out_like(results: Any, expected: Any) -> Any:
    """Return the results of a decomposition with the strides of the operator's own results.

    To be called while operators are recorded.
    """
    models = iter(tree_leaves(expected))

    def lay_out(value: Any) -> Any:
        like = next(models, None)
        if isinstance(value, FakeTensor) and isinstance(like, FakeTensor):
            return laid_out_like(value, like)
        return value

    return tree_map(lay_out, results)


def laid_out_like(value: FakeTensor, like: torch.Tensor) -> FakeTensor:
    """Return a copy with the strides of a dense tensor of the same shape; the value if it has them.

    Strides that depend on data are not compared: the value is returned.
    """
    if not same_sizes(value.shape, like.shape) or same_sizes(value.stride(), like.stride()):
        return value
    order = memory_order(like)
    if order is None:
        return value
    dense = aten.clone.default(
        aten.permute.default(value, order), memory_format=torch.contiguous_format
    )
    inverse = sorted(range(like.dim()), key=order.__getitem__)
    return aten.permute.default(dense, inverse)  # type: ignore[no-any-return]
