"""The wrapper: calling convention, memory, views, library calls, readable and runnable text."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

from minitorch2 import stages
from minitorch2.codegen.arena import Interval, plan_arena
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.extern import with_layout
from tests.unit.codegen.aten_graph import record

ROOT = Path(__file__).parents[3]


def wrapper_of(program, *inputs):
    with stages.collect() as log:
        call = compile_graph(record(program, *inputs))
    return call, log.texts("wrapper.py")[0]


def test_inputs_die_when_they_are_not_needed_any_more():
    died = []

    def program(x, w):
        return torch.mm(torch.mm(torch.sin(x), w), w)

    call, text = wrapper_of(program, torch.randn(8, 8), torch.randn(8, 8))
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    weakref.finalize(x, lambda: died.append("x"))
    arguments = [x, w]
    del x
    call(arguments)
    gc.collect()
    assert arguments == [] and died == ["x"]
    assert text.index("del arg0") < text.index("mm(", text.index("def call"))


def test_results_have_the_strides_of_eager_where_a_size_is_1_too():
    program = lambda x, w: (torch.nn.functional.max_pool1d(x * 2, 2), (x + 1) @ w)  # noqa: E731
    x, w = torch.randn(6, 1, 4), torch.randn(4, 3)
    call, _ = wrapper_of(program, x, w)
    assert [r.stride() for r in call([x, w])] == [r.stride() for r in program(x, w)]


def test_a_chain_of_matmuls_and_pointwise_allocates_little():
    def program(x, w):
        for _ in range(6):
            x = torch.relu(torch.mm(x, w) + 1)
        return x

    _, text = wrapper_of(program, torch.randn(8, 8), torch.randn(8, 8))
    assert text.count("empty") - text.count("import") * 0 <= 2 + text.split("def call")[0].count(
        "empty"
    )
    assert text.count("# in place") == 6


def test_intermediates_of_kernels_share_one_arena(check):
    def program(x):
        for _ in range(5):
            x = torch.softmax(x, 0).flip(0)
            x = x + x.flip(1)
        return x

    log = check(program, torch.randn(16, 16))
    (text,) = log.texts("wrapper.py")
    assert text.count("arena = empty_cpu(") == 1
    assert "base + 1024" in text and "base + 3072" not in text


def test_the_arena_never_shares_what_lives_together():
    intervals = [Interval(f"b{i}", 64 * (1 + i % 3), i, i + i % 4) for i in range(40)]
    plan = plan_arena(intervals)
    for a in intervals:
        for b in intervals:
            if a.name < b.name and a.start <= b.end and b.start <= a.end:
                low, high = sorted((a, b), key=lambda i: plan.offsets[i.name])
                assert plan.offsets[low.name] + low.bytes <= plan.offsets[high.name]
    assert plan.bytes < plan.bytes_without_reuse


def test_views_are_not_copied(check):
    log = check(lambda x, w: torch.mm(x.t(), w).view(2, 3, 5).permute(2, 0, 1),
                torch.randn(4, 6), torch.randn(4, 5), kernels=0)  # fmt: skip
    assert "as_strided" in log.texts("wrapper.py")[0]


def test_a_transposed_weight_is_not_viewed_at_each_call(check):
    def program(bias, x, weight, square):
        y = torch.addmm(bias, x, weight.t())
        return torch.addmm(bias, y, square), torch.addmm(bias, y[:, :4], weight[:, 1:5].t())

    inputs = torch.randn(5), torch.randn(3, 6), torch.randn(5, 6), torch.randn(5, 5).t()
    text = check(program, *inputs).texts("wrapper.py")[0]
    call = text[text.index("def call") :]
    assert "linear(arg1, arg2, arg0)" in call
    assert call.count("linear(") == 1, "neither a part of a weight nor a transposed one"


def test_memory_taken_over_in_another_shape_is_viewed_only_where_that_shows(check):
    def program(x, w):
        y = torch.mm(x, w).view(2, 3, 4).relu()
        z = torch.mm(y.view(6, 4), w).view(3, 8).sin()
        return torch.mm(z.view(6, 4), w).view(4, 6).exp()

    text = check(program, torch.randn(6, 4), torch.randn(4, 4)).texts("wrapper.py")[0]
    assert text.count("# in place") == 3
    assert text.count("as_strided(") == 1, "only the result has another shape than its memory"


@pytest.mark.parametrize(
    ("size", "stride", "planned", "copied"),
    [
        ((2, 3), (3, 1), (3, 1), False),
        ((1, 3), (9, 1), (3, 1), False),
        ((0, 3), (9, 1), (3, 1), False),
        ((2, 3), (1, 2), (3, 1), True),
    ],
)
def test_results_of_library_calls_get_the_planned_strides(size, stride, planned, copied):
    tensor = torch.randn(100).as_strided(size, stride)
    settled = with_layout(tensor, size, planned)
    assert (settled is not tensor) == copied
    assert torch.equal(settled, tensor) and (not copied or settled.stride() == planned)


def test_inputs_with_an_offset(check):
    base = torch.randn(100)
    check(
        lambda x, y: (x * 2, torch.mm(x, y[:, 1:4]), x[1:]),
        base[4:20].view(4, 4),
        base[20:40].view(4, 5),
    )


def test_outputs_may_repeat_and_alias():
    x = torch.randn(4)
    call, _ = wrapper_of(lambda x: (x, x + 1, x), x)
    a, b, c = call([x])
    assert a.data_ptr() == c.data_ptr() == x.data_ptr() and torch.equal(b, x + 1)


def test_constants_of_the_graph(check):
    weight = torch.randn(4, 4)
    check(lambda x: torch.mm(x, weight) + weight, torch.randn(4, 4))


def test_calls_with_several_results(check):
    check(lambda x: torch.sort(x * 2, 1), torch.randn(5, 6))
    check(lambda x: torch.topk(x, 2)[0] + 1, torch.randn(5, 6))


def test_results_are_fresh_in_every_call():
    call, _ = wrapper_of(lambda x: torch.softmax(x, 0).flip(0), torch.randn(9, 9))
    x = torch.randn(9, 9)
    first = call([x])[0]
    kept = first.clone()
    call([torch.randn(9, 9)])
    assert torch.equal(first, kept)


def test_the_text_runs_alone():
    call, text = wrapper_of(lambda x: torch.exp(x) + 1, torch.randn(4, 5))
    namespace: dict = {}
    exec(text, namespace)
    x = torch.randn(4, 5)
    assert torch.equal(namespace["call"]([x])[0], call([x])[0])


def test_the_text_does_not_depend_on_the_hash_seed():
    program = """
import torch
from minitorch2 import stages
from minitorch2.codegen.compile_graph import compile_graph
from tests.unit.codegen.aten_graph import record

with stages.collect() as log:
    compile_graph(record(lambda *xs: sum(xs).sin() @ xs[0], *[torch.ones(2, 2)] * 5))
print(*log.texts("wrapper.py"))
"""

    def text(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    first = text("1")
    assert "del " in first
    assert first == text("2")


def test_tracebacks_show_the_generated_line():
    call, _ = wrapper_of(lambda w, i: w[i], torch.randn(4, 4), torch.tensor([1]))
    with pytest.raises(IndexError) as caught:
        call([torch.randn(4, 4), torch.tensor([7])])
    assert "fused_" in str(caught.traceback[-1].statement)


@pytest.mark.parametrize("dynamic", [False, True])
def test_symbolic_sizes(dynamic, check):
    check(lambda x, w: torch.relu(torch.mm(x, w)).sum(0) + x.shape[0], torch.randn(6, 5),
          torch.randn(5, 7), dynamic=dynamic)  # fmt: skip


def test_an_arena_of_empty_buffers_only_has_an_address(check):
    def program(x):
        return torch.softmax(x, 0).flip(0).sum(1)

    check(program, torch.randn(6, 0))


def test_a_buffer_is_made_as_the_library_reads_it(check):
    """No view at the call: `x.sin()` has three dimensions, the product wants two of them."""

    def program(x, w):
        return torch.mm(x.sin().view(6, 4), w), torch.mm(x.cos().view(6, 4), w)

    x, w = torch.randn(2, 3, 4), torch.randn(4, 5)
    text = check(program, x, w).texts("wrapper.py")[0]
    assert "as_strided(" not in text.partition("def call")[2]


def test_a_buffer_that_is_seen_in_two_ways_keeps_its_own_layout(check):
    def program(x, w):
        y = x.sin()
        return torch.mm(y.view(6, 4), w), torch.mm(y.view(6, 4).t(), y.view(6, 4)), y

    x, w = torch.randn(2, 3, 4), torch.randn(4, 5)
    text = check(program, x, w).texts("wrapper.py")[0]
    assert "as_strided(" in text.partition("def call")[2]
