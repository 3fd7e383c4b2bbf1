"""Every overload that is lowered, on PyTorch's own samples, bent: other dtypes, layouts, values.

What eager gives is what the overload must give: dtype, shape and elements; where it rounds, our
error against the same call in float64 may be eager's `FACTOR` times, or a few units in the last
place. Overloads that no sample reaches are called by what their schema says; what is left is
listed with a reason.
"""

import math
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from minitorch2.loopir.interpret import interpret
from minitorch2.loopir.lower_graph import lower_graph
from minitorch2.loopir.lowering import LOWERINGS
from tests.operators.compare import function_of
from tests.operators.sweep import OPERATORS
from tests.property.test_lowering_families import SPECIAL, in_some_layout, same_bits
from tests.unit.loopir.trace_aten import trace

aten = torch.ops.aten
Call = tuple[tuple[Any, ...], dict[str, Any]]
FACTOR, ULPS = 4.0, 8.0
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SAMPLES = 3

REASONS = {
    "draws random numbers": """
        native_dropout.default rand.default rand.generator rand_like.default rand_like.generator
        randn.default randn.generator randn_like.default randn_like.generator randint.default
        randint.generator randint.low randint.low_generator randint_like.default
        randint_like.Tensor randint_like.generator randint_like.Tensor_generator
        randint_like.low_dtype randint_like.low_generator_dtype randperm.default
        randperm.generator bernoulli.p bernoulli.default bernoulli.Tensor
        minitorch2.bernoulli.default normal_functional.default uniform.default
        exponential.default multinomial.default
    """,
    "is one of the library's own kernels, called as it is": """
        _scaled_dot_product_flash_attention.default _scaled_dot_product_flash_attention.quantized
        _scaled_dot_product_efficient_attention.default
        _scaled_dot_product_cudnn_attention.default
        _scaled_dot_product_flash_attention_backward.default
        _scaled_dot_product_efficient_attention_backward.default
        _scaled_dot_product_cudnn_attention_backward.default
        _scaled_dot_product_attention_math_for_mps.default
        _scaled_dot_product_fused_attention_overrideable.default
        _scaled_dot_product_flash_attention_for_cpu.default
        _scaled_dot_product_flash_attention_for_cpu_backward.default
        mm.dtype addmm.dtype bmm.dtype baddbmm.dtype
    """,
    "has no values": """
        empty.memory_format empty_like.default new_empty.default empty_strided.default
        new_empty_strided.default empty_permuted.default
    """,
    "shows the bits of NaN, of which the interpreter has one": "view.dtype",
    "has no meta kernel in PyTorch 2.11": "_convolution.default",
}
VAGUE_NAN = ("softshrink_backward.default", "hardshrink_backward.default")
"""What eager gives for NaN depends on how many elements there are."""
COARSE = {"erfinv.default": 1e-14}
"""Relative error of eager's float64: a last step of Newton's."""
IN_ROWS = {"as_strided.default", "as_strided_scatter.default"}
"""What addresses memory has arguments for one layout."""
EXCUSED = {name: reason for reason, names in REASONS.items() for name in names.split()}


def name_of(overload: Any) -> str:
    return str(overload).removeprefix("aten.")


class Recorder(TorchDispatchMode):
    """Keeps the first calls of each lowered overload."""

    def __init__(self, calls: dict[Any, list[Call]]) -> None:
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        known = self.calls.get(func)
        if known is not None and len(known) < SAMPLES and _is_small(args):
            known.append(tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (args, kwargs)))
        return func(*args, **kwargs)


def _is_small(args: Any) -> bool:
    return sum(x.numel() for x in tree_leaves(args) if isinstance(x, torch.Tensor)) < 1000


@cache
def calls() -> dict[Any, list[Call]]:
    """Calls of overloads, as PyTorch's operators make them on their samples, and made up."""
    found: dict[Any, list[Call]] = {o: [] for o in LOWERINGS if name_of(o) not in EXCUSED}
    warnings.simplefilter("ignore")
    for op in OPERATORS.values():
        for dtype in (torch.float32, torch.int64):
            for sample in _samples(op, dtype):
                _record(op, sample, found)
    for overload, known in found.items():
        if not known:
            known += filter(lambda call: _works(overload, call), made_up(overload))
    return found


def _samples(op: Any, dtype: torch.dtype) -> list[Any]:
    """The first samples; `op.sample_inputs` would seed every device, and print the stack for it."""
    if dtype not in op.dtypes:
        return []
    torch.default_generator.manual_seed(0)
    backward = op.supports_autograd and dtype.is_floating_point
    try:
        return list(islice(op.sample_inputs_func(op, "cpu", dtype, backward), SAMPLES))
    except Exception:  # the database's own functions fail for some dtypes
        return []


def _record(op: Any, sample: Any, found: dict[Any, list[Call]]) -> None:
    try:
        with Recorder(found):
            result = function_of(op)(sample.input, *sample.args, **sample.kwargs)
            wanted = [x for x in tree_leaves(result) if getattr(x, "requires_grad", False)]
            if wanted:
                torch.autograd.backward(wanted, [torch.rand_like(x) for x in wanted])
    except Exception:  # a sample that eager refuses says nothing
        pass


ARGUMENTS = {
    "Tensor": [torch.tensor([[1.0, 2.0, -3.0], [0.5, 0.0, 4.0]]), torch.arange(6).reshape(2, 3)],
    "number": [2], "int": [1, 0], "float": [0.5], "bool": [False], "List[int]": [[1], [2, 1]],
    "SymInt": [1], "List[SymInt]": [[1], [2, 1]], "List[Tensor]": [[torch.ones(2, 3)] * 2],
}  # fmt: skip


def made_up(overload: Any) -> Iterator[Call]:
    """The call that is written out, or calls with a value for each argument without a default."""
    if name_of(overload) in WRITTEN_OUT:
        yield WRITTEN_OUT[name_of(overload)]
        return
    required = [a for a in overload._schema.arguments if not a.has_default_value()]
    for choice in range(2):
        kinds = [ARGUMENTS.get(str(a.type), [None]) for a in required]
        values = [kind[min(choice, len(kind) - 1)] for kind in kinds]
        pairs = list(zip(required, values, strict=True))
        yield (
            tuple(value for argument, value in pairs if not argument.kwarg_only),
            {argument.name: value for argument, value in pairs if argument.kwarg_only},
        )


def _works(overload: Any, call: Call) -> bool:
    try:
        overload(*call[0], **call[1])
    except Exception:
        return False
    return True


def _values(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) - 0.25


_MATRIX, _IMAGE, _VOLUME = _values(4, 6), _values(1, 2, 4, 5), _values(1, 2, 3, 4, 5)
_PLACES = torch.tensor([1, 0, 1])

WRITTEN_OUT: dict[str, Call] = {
    name: (arguments, keywords)
    for name, arguments, keywords in [
        ("fill.Tensor", (_MATRIX, torch.tensor(2.0)), {}),
        ("_reshape_alias.default", (_MATRIX, [3, 8], [8, 1]), {}),
        ("reshape.default", (_MATRIX, [3, -1]), {}),
        ("_reshape_copy.default", (_MATRIX, [3, 8]), {}),
        ("split.sizes", (_MATRIX, [1, 3]), {}),
        ("unsafe_split_with_sizes.default", (_MATRIX, [1, 3]), {}),
        ("_unsafe_index.Tensor", (_MATRIX, [_PLACES, None]), {}),
        ("_unsafe_index_put.default", (_MATRIX, [_PLACES], _values(3, 6), True), {}),
        ("_unsafe_index_put.hacked_twin", (_MATRIX, [_PLACES], _values(3, 6), True), {}),
        ("index_put.hacked_twin", (_MATRIX, [_PLACES], _values(3, 6), True), {}),
        ("scatter.value_reduce", (_MATRIX, 0, _PLACES[:, None], 2.5), {"reduce": "add"}),
        ("_addmm_activation.default", (_values(5), _MATRIX, _values(6, 5)), {}),
        ("upsample_bilinear2d.vec", (_IMAGE, [7, 3], False, None), {}),
        ("upsample_bicubic2d.vec", (_IMAGE, [7, 3], True, None), {}),
        ("upsample_linear1d.vec", (_values(1, 2, 5), None, False, [1.6]), {}),
        ("upsample_nearest2d.default", (_IMAGE, [7, 3]), {}),
        ("upsample_nearest2d_backward.default", (_values(1, 2, 7, 3), [7, 3], [1, 2, 4, 5]), {}),
        ("upsample_nearest3d.default", (_VOLUME, [2, 7, 3]), {}),
        ("upsample_nearest3d_backward.default",
         (_values(1, 2, 2, 7, 3), [2, 7, 3], [1, 2, 3, 4, 5]), {}),
        ("reflection_pad2d.default", (_IMAGE, [1, 2, 0, 3]), {}),
        ("reflection_pad2d_backward.default", (_values(1, 2, 7, 8), _IMAGE, [1, 2, 0, 3]), {}),
        ("reflection_pad3d.default", (_VOLUME, [1, 2, 0, 3, 1, 1]), {}),
        ("replication_pad3d.default", (_VOLUME, [1, 2, 0, 3, 1, 1]), {}),
        ("norm.ScalarOpt_dtype", (_MATRIX, 3), {"dtype": torch.float64}),
        ("norm.ScalarOpt_dim_dtype", (_MATRIX, 2, [1], False), {"dtype": torch.float64}),
        ("where.ScalarOther", (_MATRIX > 0, _MATRIX, 2.0), {}),
        ("where.ScalarSelf", (_MATRIX > 0, 2.0, _MATRIX), {}),
        ("where.Scalar", (_MATRIX > 0, 2.0, 3.0), {}),
    ]
}  # fmt: skip


def test_every_lowered_overload_is_called_or_excused():
    assert [name_of(o) for o, known in calls().items() if not known] == []
    assert EXCUSED.keys() <= {name_of(o) for o in LOWERINGS}


def bent(draw: Any, tensors: list[torch.Tensor], special: list[float]) -> list[torch.Tensor]:
    """The tensors in another float dtype, with special values, in other layouts."""
    dtype = draw(st.sampled_from(FLOATS))
    chosen = draw(st.lists(st.sampled_from(special), max_size=2))
    return [_bent(draw, x, dtype, chosen) for x in tensors]


def _bent(draw: Any, x: torch.Tensor, dtype: torch.dtype, special: list[float]) -> torch.Tensor:
    x = in_rows(x.detach())
    if x.dtype == torch.float32:
        x = x.to(dtype)
        for position, value in enumerate(special[: x.numel()]):
            x.view(-1)[(7 * position) % x.numel()] = value
    return in_some_layout(draw, x.reshape(-1), list(x.shape)) if x.numel() else x


@pytest.mark.parametrize("overload", LOWERINGS, ids=name_of)
def test_a_lowering_is_what_eager_computes(overload):
    name = name_of(overload)
    if name in EXCUSED:
        pytest.skip(EXCUSED[name])
    known = calls()[overload]

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        leaves, structure = tree_flatten(data.draw(st.sampled_from(known)))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        special = [v for v in SPECIAL if v == v or name not in VAGUE_NAN]
        inputs = bent(data.draw, [leaves[i] for i in places], special)
        inputs = list(map(in_rows, inputs)) if name in IN_ROWS else inputs

        def function(*tensors: torch.Tensor) -> Any:
            chosen = dict(zip(places, tensors, strict=True))
            given = [chosen.get(i, leaf) for i, leaf in enumerate(leaves)]
            args, kwargs = tree_unflatten(given, structure)
            return overload(*args, **kwargs)

        try:
            expected = tree_leaves(function(*inputs))
        except (RuntimeError, IndexError, NotImplementedError):  # not for this dtype, or refused
            return
        exact = tree_leaves(function(*(_wide(x) for x in inputs)))
        found = interpret(lower_graph(trace(function, inputs), inputs), inputs)
        for ours, theirs, truth in zip(found, expected, exact, strict=True):
            right = is_right(ours, theirs, truth, COARSE.get(name, 0.0))
            assert right, (inputs, ours, theirs, truth)

    check()


def in_rows(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def is_right(ours: Any, theirs: Any, exact: Any, coarse: float) -> bool:
    """The same bits, or as near to the result in float64 as eager is; `coarse`: its own error."""
    if not isinstance(theirs, torch.Tensor):
        return ours == theirs
    if same_bits(ours, theirs) or (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return same_bits(ours, theirs)
    if not theirs.dtype.is_floating_point or not torch.equal(ours.isnan(), theirs.isnan()):
        return False
    differs = ours.ne(theirs) & ~ours.isnan()
    if not differs.any():
        return True
    left, right = ((x.double() - exact)[differs].abs().max().item() for x in (ours, theirs))
    largest = max(exact[exact.isfinite()].abs().tolist(), default=0.0)
    unit = max(coarse, torch.finfo(ours.dtype).eps) * max(largest, torch.finfo(ours.dtype).tiny)
    return not math.isnan(left) and left <= max(FACTOR * right, ULPS * unit)
