"""Sizes and numbers that only data will tell: one compilation for whatever the data are.

Each program is compiled once and run on random data, so on random counts, 0 and 1 among them,
forward and backward, and must agree with eager PyTorch each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import stages
from minitorch2.testing import assert_same

Program = Callable[..., Any]


def masked_sum(x: torch.Tensor) -> Any:
    return x[x > 0].sum()


def masked_mean(x: torch.Tensor) -> Any:
    return (x[x > 0] * 3).mean(), x[x > 0].shape


def rows(x: torch.Tensor) -> Any:
    kept = x[x[:, 0] > 0]
    return kept.sin() @ x.t(), kept.shape[0] * 2


def positions(x: torch.Tensor) -> Any:
    return (x > 0).nonzero().float().mean(0)


def position_tuple(x: torch.Tensor) -> Any:
    i, j = torch.where(x > 0)
    return x[i, j].exp() + j, i


def two_masks(x: torch.Tensor) -> Any:
    mask = x > 0
    return (x[mask] * x.cos()[mask]).sum(), torch.masked_select(x, mask) + x[mask]


def softmax_of_kept(x: torch.Tensor) -> Any:
    return torch.softmax(x[x > 0], 0), torch.log_softmax(x[x[:, 1] > 0], 1)


def counted(x: torch.Tensor) -> Any:
    n = (x > 0).sum().item()
    return torch.zeros(n) + x.sum(), torch.arange(n) * 2, n + 1


def mean_as_number(x: torch.Tensor) -> Any:
    scale = x.detach().amax().item()
    return x * scale, scale * 2 + 1


def counted_only(x: torch.Tensor) -> Any:
    """Of the distinct elements, their number alone is used."""
    return x * torch.unique(x.detach()).shape[0]


def distinct(x: torch.Tensor) -> Any:
    values, inverse, counts = torch.unique(
        x.detach().round(), return_inverse=True, return_counts=True
    )
    return values * 2, inverse, counts.float() / x.numel()


def repeated(x: torch.Tensor) -> Any:
    repeats = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return x.repeat_interleave(repeats, 0) * 2


def first_rows(x: torch.Tensor) -> Any:
    n = (x[:, 0] > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return x[:n].exp().sum(0), x[n:] + 1


def best(x: torch.Tensor) -> Any:
    """Slices of a size that is not known: they end where the rows end."""
    kept = x[x[:, 0] > 0]
    head, rest = kept[:2] * 2, kept[2:].exp()
    return head, rest.sum(0), kept[-1:] + 1, kept[1::2].sin(), kept[kept.shape[0] // 2 :] * 3


def until_count(x: torch.Tensor) -> Any:
    n = (x[:, 0] > 0).sum().item() * 2
    torch._check(n >= 0)
    return x[:n].exp(), x[n:] * 2


def written(x: torch.Tensor) -> Any:
    mask = x > 0
    result = x * 1
    result[mask] = (x[mask] * 2).tanh()
    return result


def scattered(x: torch.Tensor) -> Any:
    waves = x.sin()
    result = torch.zeros_like(waves)
    result[waves > 0] = waves[waves > 0]
    return result


def written_by_parts(x: torch.Tensor) -> Any:
    """Backward computes sizes of its own, which it compares with those of forward."""
    waves = x.sin()
    mask, result = waves > 0, torch.zeros_like(waves)
    result[mask] = waves[mask] * 2
    result[~mask] = waves[~mask].exp()
    return result


def differentiated_inside(x: torch.Tensor) -> Any:
    """Sizes that only the gradient's computation knows are compared there, not in the graph."""
    leaf = x.detach().requires_grad_()
    small, losses = leaf.abs() < 1, torch.empty_like(leaf)
    losses[small] = leaf[small] ** 2 / 2
    losses[~small] = leaf[~small].abs() - 0.5
    return torch.autograd.grad(losses.sum(), leaf)[0], losses.detach()


def experts(x: torch.Tensor) -> Any:
    gates = torch.softmax(x[:, :3], 1)
    chosen = gates.argmax(1)
    result = torch.zeros_like(x)
    for expert in range(3):
        token = (chosen == expert).nonzero().squeeze(1)
        hidden = torch.relu(x[token] * (expert + 1)) @ torch.ones(4, 4)
        result = result.index_add(0, token, hidden * gates[token, expert].unsqueeze(1))
    return result


def boxes(x: torch.Tensor) -> Any:
    """Keep the boxes with a good score, the best one first, and say how many there are."""
    kept = x[x[:, 3] > 0]
    order = kept[:, 3].argsort(descending=True)
    return kept[order, :2].clamp(-1, 1), kept.shape[0]


def rare_when_empty(x: torch.Tensor) -> Any:
    """Operators that ask whether there is anything: where there is nothing, Python answers."""
    kept = x[x[:, 0] > 0]
    return kept.roll(1, 0) * 2, kept.logsumexp(1), kept.cummax(1)[0], torch.cdist(kept, x)


def attention_of_kept(x: torch.Tensor) -> Any:
    kept = x[x[:, 1] > 0]
    mixed = F.scaled_dot_product_attention(kept[None], x[None], x[None])
    return mixed + F.scaled_dot_product_attention(kept[None], kept[None], kept[None])


def squeezed(x: torch.Tensor) -> Any:
    """One row is no matrix any more."""
    kept = x[x[:, 0] > 0]
    return kept.squeeze() * 2, kept.squeeze(0) + 1


def losses_of_kept(x: torch.Tensor) -> Any:
    """A mask that is written twice has one count."""
    y = x.detach().flip(0)
    return F.mse_loss(x[y > 0], y[y > 0]), F.smooth_l1_loss(x[y.abs() > 1], y[y.abs() > 1])


def losses_of_others(x: torch.Tensor) -> Any:
    y, mask = x.detach().flip(0), x.detach() > 0
    return F.huber_loss(x[~mask], y[~mask]), F.l1_loss(x[mask & (y > 0)], y[mask & (y > 0)])


def cross_entropy_of_kept_rows(x: torch.Tensor) -> Any:
    y = x.detach()
    return F.cross_entropy(x[y.sum(1) > 0], y[y.sum(1) > 0].argmax(1), reduction="sum")


def products_of_kept(x: torch.Tensor) -> Any:
    positive = (x > 0).nonzero(as_tuple=True)
    return (x[x > 0] * x[x > 0]).sum(), x[positive] + torch.masked_select(x, x > 0)


def equal_numbers(x: torch.Tensor) -> Any:
    y = x.detach()
    first, again = (torch.arange(int((y > 0).sum(1).max())) for _ in range(2))
    return first * again, y.round().unique() + y.round().unique(), x * 2


PROGRAMS = [
    losses_of_kept,
    losses_of_others,
    cross_entropy_of_kept_rows,
    products_of_kept,
    equal_numbers,
    squeezed,
    rare_when_empty,
    attention_of_kept,
    masked_sum,
    masked_mean,
    rows,
    positions,
    position_tuple,
    two_masks,
    softmax_of_kept,
    counted,
    mean_as_number,
    distinct,
    counted_only,
    repeated,
    first_rows,
    best,
    until_count,
    written,
    scattered,
    written_by_parts,
    differentiated_inside,
    experts,
    boxes,
]


def data(seed: int, kept: str) -> torch.Tensor:
    """Data of which no, one, some or all elements and rows are positive."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    if kept != "some":
        x = x.abs() if kept == "all" else -x.abs()
    if kept == "one":
        x[seed % 6] = x[seed % 6].abs()
    return x


def gradients_like(results: Any, x: torch.Tensor) -> Any:
    """The gradient of the sum of all differentiable results."""
    leaves = torch.utils._pytree.tree_leaves(results)
    tensors = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    return torch.autograd.grad(sum(t.sum() for t in tensors), x) if tensors else None


COMPILED: dict[tuple[str, str], Program] = {}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba", "triton"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_compilation_serves_whatever_the_data_are(program: Program, backend: str) -> None:
    with stages.collect() as log:
        compiled = minitorch2.compile(program, backend=backend, fullgraph=True)

        @settings(max_examples=8, deadline=None, database=None)
        @given(st.integers(0, 100), st.sampled_from(["none", "one", "some", "all"]))
        def agree(seed: int, kept: str) -> None:
            ours, theirs = (data(seed, kept).requires_grad_() for _ in range(2))
            result, expected = compiled(ours), program(theirs)
            assert_same(result, expected, 1e-5)
            assert_same(gradients_like(result, ours), gradients_like(expected, theirs), 1e-5)

        for kept in ("some", "none", "one", "all"):
            agree.hypothesis.inner_test(3, kept)
        if backend != "triton":  # whose interpreter is slow
            agree()
    assert log.counts["graphs"] == 1
    assert log.counts["graph_breaks"] == 0
    assert log.counts["triton_unavailable"] == 0


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(PROGRAMS), st.integers(0, 100), st.sampled_from(("none", "one", "some")))
def test_a_program_that_meets_any_data_first_is_one_graph(
    program: Program, seed: int, kept: str
) -> None:
    compiled = minitorch2.compile(program, backend="aot_eager", fullgraph=True)
    ours, theirs = (data(seed, kept).requires_grad_() for _ in range(2))
    result, expected = compiled(ours), program(theirs)
    assert_same(result, expected, 1e-5)
    assert_same(gradients_like(result, ours), gradients_like(expected, theirs), 1e-5)


Write = Callable[[torch.Tensor, torch.Tensor], object]

WRITES: dict[str, Write] = {
    "copy_": lambda x, other: x.copy_(other),
    "data.copy_": lambda x, other: x.data.copy_(other),
    "data.copy_ of a constant": lambda x, other: x.data.copy_(torch.tensor([0.0, 2.0, 0.0, 0.0])),
    "out= of none": lambda x, other: torch.mul(other, 2, out=x.resize_(0)),
    "data.zero_": lambda x, other: x.data.zero_(),
    "data[k] =": lambda x, other: x.data.__setitem__(1, 5.0),
    "view.data[k] =": lambda x, other: x.view(-1).data.__setitem__(2, 5.0),
    "data of a slice": lambda x, other: x[1:].data.fill_(3.0),
    "data =": lambda x, other: setattr(x, "data", other),
    "detach": lambda x, other: x.detach().neg_().relu_(),
    "out=": lambda x, other: torch.mul(other, 2, out=x.data),
    "a list": lambda x, other: torch._foreach_zero_([x]),
    "a list of views": lambda x, other: torch._foreach_copy_([x.data[:2], x[2:]], other.split(2)),
    "nothing": lambda x, other: None,
}

COUNTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x)[0],
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "x[mask]": lambda x: x[x > 0],
    "x[bools]": lambda x: torch.arange(4)[x.bool()],
    "unique": lambda x: x.unique(),
    "bincount": lambda x: torch.bincount(x.abs().long()),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([*COUNTS]),
    st.lists(st.sampled_from([*WRITES]), min_size=1, max_size=2),
    st.lists(st.integers(0, 15), min_size=2, max_size=3),
)
def test_a_count_before_a_write_is_not_the_count_after_it(
    backend: str, name: str, writes: list[str], seeds: list[int]
) -> None:
    count = COUNTS[name]

    def program(x: torch.Tensor, other: torch.Tensor) -> Any:
        found = [count(x)]
        for write in writes:
            WRITES[write](x, other)
            found.append(count(x))
        sizes = [each.shape[0] for each in found]
        return found, sizes, torch.arange(sum(sizes)), x * 2

    minitorch2.reset()
    compiled = minitorch2.compile(program, backend=backend)
    for seed in seeds:
        x = torch.tensor([float(seed >> bit & 1) * (bit + 1) for bit in range(4)])
        ours, theirs = x.clone(), x.clone()
        assert_same(compiled(ours, x.flip(0)), program(theirs, x.flip(0)))
        assert_same(ours, theirs)


def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


def normalized(x: torch.Tensor) -> torch.Tensor:
    """The statistics are written to by an operator whose name does not say so."""
    mean = torch.zeros(4)
    before = positive(mean - 0.01)
    F.batch_norm(x, mean, torch.ones(4), training=True)
    return torch.stack([mean, before.new_full((4,), before.shape[0])])


def copied(x: torch.Tensor, order: torch.memory_format = torch.preserve_format) -> torch.Tensor:
    """Copy a tensor by the call with which a branch or a loop copies its result."""
    return x.clone(memory_format=order)


def branched(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * -2, (x,))
    return found


def looped(x: torch.Tensor, loop: Any = torch._higher_order_ops.while_loop) -> torch.Tensor:
    found: torch.Tensor = loop(lambda a: a.sum() < 5, lambda a: (a + 1,), (x,))[0]
    return found


def scanned(x: torch.Tensor, scan: Any = torch._higher_order_ops.scan) -> torch.Tensor:
    found: torch.Tensor = scan(lambda c, a: (c + a, c * 2), x[0], x)[1]
    return found


OTHERS: dict[str, tuple[Program, Program]] = {
    "random": (torch.randn_like, torch.randn_like),
    "dropout": (F.dropout, F.dropout),
    "empty": (lambda x: torch.empty_like(x).copy_(x), lambda x: torch.empty_like(x).copy_(-x)),
    "in place": (lambda x: x.clone(), lambda x: x.clone().neg_()),
    "statistics": (normalized, lambda x: normalized(-x)),
    "branch": (lambda x: copied(x * 2), branched),
    "other branch": (lambda x: copied(x * -2), branched),
    "loop": (lambda x: copied(x + 1, torch.contiguous_format), looped),
    "scan": (lambda x: (x[0] * 2).expand(6, 4), scanned),
    "zeros with signs": (lambda x: 1 / (x.abs() * 0.0), lambda x: 1 / (x.abs() * -0.0)),
    "numbers with types": (lambda x: x.int() / 2, lambda x: x.int() // 2),
    "views": (lambda x: x.clone()[1:], lambda x: x.clone()[:-1]),
    "constants": (lambda x: torch.tensor([1.0, -1.0]), lambda x: torch.tensor([1.0, 1.0])),
}
"""Two computations of the same form, and different elements."""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "numba"])
@pytest.mark.parametrize("name", OTHERS)
def test_elements_of_other_computations_are_counted_apart(name: str, backend: str) -> None:
    one, other = OTHERS[name]

    def program(x: torch.Tensor) -> Any:
        counts = [positive(make(x)).shape[0] for make in (one, other, one, other)]
        return counts, [torch.arange(count) for count in counts]

    compiled = minitorch2.compile(program, backend=backend, fullgraph=True)
    for seed in range(4):
        x = data(seed, "some")
        found = []
        for function in (compiled, program):
            torch.manual_seed(seed)
            found.append(function(x))
        assert_same(*found)


def test_runs_of_equal_elements_are_not_counted_as_distinct_ones() -> None:
    def program(x: torch.Tensor) -> Any:
        calls = (torch.unique, torch.unique_consecutive, torch.nonzero, torch.bincount)
        sizes = [call(x).shape[0] for call in (*calls, *calls)]
        return sizes, torch.arange(sum(sizes))

    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    for elements in ([0, 1, 1, 0, 2], [2, 2, 2], [1, 0, 1, 0]):
        assert_same(compiled(torch.tensor(elements)), program(torch.tensor(elements)))
