"""Facts of the TorchScript overview that no test of one room shows."""

import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import config, jit, stages
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph
from minitorch2.script.ir.types import BOOL
from minitorch2.script.runtime.python_code import text_of
from tests.script_survey import WrongError, refusal


def doubled_until(x: Tensor, limit: int):
    """A loop on data."""
    while bool(x.sum() < limit):
        x = x * 2
    return x


def rewound(file):
    file.seek(0)
    return file


def test_a_function_in_a_file_is_a_module_with_a_single_forward():
    file = io.BytesIO()
    jit.save(jit.script(doubled_until), file)
    loaded = torch.jit.load(rewound(file))
    assert isinstance(loaded, torch.jit.ScriptModule)
    with zipfile.ZipFile(rewound(file)) as archive:
        code = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")]
    assert "".join(code).count("def ") == 1
    assert loaded(torch.ones(2), 9).tolist() == [8, 8]


def test_a_parameter_is_a_slot_where_another_tensor_can_be_placed():
    model = nn.Linear(2, 2, bias=False)
    script, x = jit.script(model), torch.ones(1, 2)
    before = script(x)
    script.weight = nn.Parameter(model.weight.detach() * 2)
    torch.testing.assert_close(script(x), before * 2)
    assert next(script.parameters()) is script.weight


def test_an_executor_is_made_at_the_first_call_of_a_method():
    script = jit.script(nn.Linear(2, 2))
    version = script._type.methods["forward"]._version
    assert "executor" not in vars(version)
    script(torch.ones(1, 2))
    assert "executor" in vars(version)


def test_a_block_begins_with_its_parameters_and_ends_with_what_it_returns():
    graph = Graph()
    c = graph.add_input("c", BOOL)
    branch = graph.insert(graph.create("prim::If", (c,), 0))
    inner = branch.add_block()
    kinds = [(block.parameters.kind, block.returns.kind) for block in (graph.block, inner)]
    assert kinds == [("prim::Param", "prim::Return")] * 2
    assert inner.owner is branch
    assert branch.block is graph.block
    assert [*graph.block.nodes] == [branch]


def test_nodes_go_to_the_end_of_the_graph_unless_another_place_is_chosen():
    graph = Graph()
    x = graph.add_input("x")
    first = graph.insert(graph.create("aten::relu", (x,), 1))
    last = graph.insert(graph.create("aten::relu", (x,), 1))
    with graph.inserting_before(last):
        between = graph.insert(graph.create("aten::relu", (x,), 1))
    assert [*graph.block.nodes] == [first, between, last]


def test_a_script_that_is_called_in_a_trace_is_inlined_with_its_control_flow():
    script = jit.script(doubled_until)
    traced = jit.trace(lambda x: script(x + 1, 100) - 1, torch.zeros(3))
    kinds = [node.kind for node in traced.graph.nodes()]
    assert "prim::Loop" in kinds
    assert "prim::CallFunction" not in kinds
    for x in (torch.zeros(3), torch.full((5,), 30.0), torch.ones(1)):
        assert torch.equal(traced(x), doubled_until(x + 1, 100) - 1)


def test_an_operator_that_calls_others_is_recorded_alone():
    traced = jit.trace(torch.nn.functional.linear, (torch.ones(2, 3), torch.ones(4, 3)))
    kinds = [node.kind for node in traced.graph.nodes()]
    assert kinds.count("aten::linear") == 1
    assert not {"aten::t", "aten::matmul", "aten::mm", "aten::addmm"} & {*kinds}


def counted(n: int, limit: int):
    for i in range(n):
        limit += i
    while limit > 9:
        limit -= 2
    return limit


def test_a_loop_is_a_for_or_a_while_by_its_inputs():
    graph = jit.script(counted).graph
    loops = [node for node in graph.nodes() if node.kind == "prim::Loop"]
    known = [(loop.constant(0), loop.blocks[0].outputs[0].constant()) for loop in loops]
    assert known == [(NOT_CONSTANT, True), (2**63 - 1, NOT_CONSTANT)]
    assert [len(loop.blocks[0].inputs[0].uses) for loop in loops] == [1, 0]
    lines = [line.split()[0] for line in text_of(graph).splitlines()]
    assert lines.count("for") == lines.count("while") == 1
    assert jit.script(counted)(5, 7) == counted(5, 7) == 9


def test_threads_that_trace_at_once_record_graphs_of_their_own():
    barrier = Barrier(2, timeout=60)

    def traced(operator):
        def f(x):
            for _ in range(50):
                x = operator(x)
            return x

        barrier.wait()
        graph = jit.trace(f, torch.ones(2)).graph
        return {node.kind for node in graph.nodes()} & {"aten::sin", "aten::cos"}

    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(traced, (torch.sin, torch.cos))]
    assert found == [{"aten::sin"}, {"aten::cos"}]


def test_nodes_have_the_lines_of_the_program_in_both_front_ends():
    def f(x: Tensor):
        return x.relu().tanh()

    for graph in (jit.script(f).graph, jit.trace(f, torch.ones(2)).graph):
        kinds = "aten::relu", "aten::tanh"
        ranges = [node.range for node in graph.nodes() if node.kind in kinds]
        assert len(ranges) == 2
        assert all(each.file.name == __file__ for each in ranges)
        assert {each.line for each in ranges} == {f.__code__.co_firstlineno + 1}


def test_only_tensors_are_recorded_and_containers_are_taken_apart_at_the_borders():
    """Regression: a dict of a tensor and a pair had the type of a dict of tensors."""

    def named(pair):
        return {"sum": pair[0] + pair[1], "pair": pair, "list": [pair[0], pair]}

    traced = jit.trace(named, ((torch.ones(1),) * 2,))
    kinds = {node.kind for node in traced.graph.nodes()}
    assert {"prim::TupleUnpack", "prim::TupleConstruct", "prim::DictConstruct"} <= kinds
    pair = torch.tensor([2.0]), torch.tensor([3.0])
    for _ in range(2):
        torch.testing.assert_close(traced(pair), named(pair))


def test_a_traced_dict_argument_may_have_items_of_several_types():
    """Regression: its type was that of the first item, so the example did not fit it."""
    given = {"x": torch.ones(2), "parts": [torch.ones(2)], "n": 3}
    traced = jit.trace(lambda d: d["x"] * d["n"] + d["parts"][0], (given,))
    assert traced(given).tolist() == [4, 4]


def written(t: Tensor):
    second = t[0]
    second.relu_()
    torch.add(t, t, out=t)
    return t


def test_writes_through_views_and_into_an_output_are_seen():
    script = jit.script(written)
    for _ in range(3):
        t = torch.tensor([[-1.0, 2.0], [-3.0, 4.0]])
        expected = written(t.clone())
        assert torch.equal(script(t), expected)
        assert torch.equal(t, expected)


def halves(x: Tensor):
    middle = x.size(0) // 2
    first = torch.jit.fork(scaled_in_place, x[:middle], 2)
    second = torch.jit.fork(scaled_in_place, x[middle:], 3)
    return torch.jit.wait(first) + torch.jit.wait(second)


def scaled_in_place(x: Tensor, factor: int):
    return x.mul_(factor)


def test_tasks_that_write_to_different_memory_need_no_order():
    script = jit.script(halves)
    for _ in range(3):
        x = torch.ones(4)
        assert script(x).tolist() == [5, 5]
        assert x.tolist() == [2, 2, 3, 3]


def test_threads_share_the_compiled_regions_of_a_plan():
    script, x = jit.script(doubled_until), torch.ones(3)
    for _ in range(3):
        script(x, 50)
    executor = script.executor
    plans = dict(executor.plans)
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda k: script(torch.full((3,), float(k)), 50), range(1, 9))]
    expected = [doubled_until(torch.full((3,), float(k)), 50) for k in range(1, 9)]
    assert all(map(torch.equal, results, expected))
    assert executor.plans == plans


@pytest.mark.parametrize("runs", [0, 1, 3])
def test_so_many_runs_are_watched_as_the_user_says(runs):
    with config.patch(script_profiled_runs=runs):
        script, x = jit.script(written), torch.ones(2, 2)
        made = []
        for _ in range(5):
            with stages.collect(texts=False) as log:
                script(x)
            made.append(log.counts["script_plans"])
    assert made == [int(call == runs) for call in range(5)]


def test_plans_are_made_of_copies_of_the_graph():
    script = jit.script(doubled_until)
    before = str(script.graph)
    for x in (torch.ones(2), torch.ones(2), torch.ones(3, 4), torch.ones(3, 4)):
        script(x, 20)
    assert len(script.executor.plans) == 2
    assert str(script.graph) == before


def pair_of(pair: tuple[Tensor, Tensor]):
    return (pair[0] * 2).sin(), (pair[1] * 3).cos()


def test_dtypes_and_ranks_of_tensors_in_tuples_choose_the_plan():
    script = jit.script(pair_of)
    pairs = [(torch.ones(2), torch.ones(2, 3)), (torch.ones(2), torch.ones(2, 3).double())]
    for pair in (*pairs, (torch.ones(5), torch.ones(7, 3))) * 2:
        torch.testing.assert_close(script(pair), pair_of(pair))
    assert len(script.executor.plans) == 2  # sizes choose none


def test_a_result_that_no_gradient_reaches_costs_none():
    script = jit.script(pair_of)
    for used in (0, 1, 0, 1):
        pair = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
        found, wanted = (
            torch.autograd.grad(f(pair)[used].sum(), pair, allow_unused=True)
            for f in (script, pair_of)
        )
        torch.testing.assert_close(found[used], wanted[used])
        assert wanted[1 - used] is None
        assert found[1 - used] is None or not found[1 - used].any()


def differs():
    raise WrongError("output differs")


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: jit.script(doubled_until), ""),
        (lambda: jit.script(lambda x: x), "no-source"),
        (differs, "WrongError"),
    ],
)
def test_a_survey_counts_what_is_right_and_says_why_others_are_not(check, told):
    found = refusal(check, shown=False)
    assert found.startswith(told)
    assert bool(found) == bool(told)
