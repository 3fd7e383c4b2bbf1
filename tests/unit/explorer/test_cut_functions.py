"""It is wrong, and no graph is: scripts, lazy steps and caches are searched, functions cut down."""

import pytest
import torch

import minitorch2
from minitorch2 import config
from minitorch2.backends import lookup_backend
from minitorch2.backends.graph_cache import key as graph_key
from minitorch2.errors import ConfigError
from minitorch2.explorer.bisection.differences import Difference, first_difference
from minitorch2.explorer.bisection.levels import Blame
from minitorch2.explorer.bisection.outcomes import observed
from minitorch2.explorer.bisection.search import CAPTURE, Bisection, cut_function
from minitorch2.explorer.bisection.statements import Source, ends, smallest
from minitorch2.explorer.bisection.trials import Trial
from minitorch2.foundation.source_lines import keep_lines
from minitorch2.script.frontend.emit_iteration import RangeSugar
from tests.mutants.planting import Edit
from tests.unit.bytecode.soundness.processes import run


def counted(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x * 2
    z = y.sin() + x.cos()
    for i in range(2, n):
        y = y + i
    z = z * 2
    return y


@pytest.fixture
def wrong_range():
    """Loops over ranges that begin with 0, whatever the program says."""
    test = "self.start.constant() == 0 and self.step.constant() == 1"
    with Edit(RangeSugar.iteration, test, "True").planted():
        yield


def test_a_script_is_cut_by_statements_and_the_file_fails_alike(wrong_range, tmp_path):
    """A script has no captured graph: the search used to compare nothing of it."""
    file = tmp_path / "small.py"
    found = minitorch2.bisect(counted, torch.ones(3), 5, frontend="script", path=file)
    assert found.difference.kind == "value" and found.blame.floor.startswith("script")
    assert found.operations == (6, 4), "y = x, the loop, its body and the return"
    assert "6 statements, 4 left" in str(found)
    names = {"__name__": "small"}
    keep_lines(str(file), file.read_text(), keep_lines)
    exec(compile(file.read_text(), str(file), "exec"), names)
    function, inputs = names["program"], names["inputs"]()
    assert names["check"](function, inputs, backend=None, options={}, frontend="script") == 1


@pytest.mark.parametrize("frontend", ["lazy", "script", "text", "trace"])
def test_each_frontend_finds_nothing_in_a_right_program(frontend):
    function, inputs = counted, (torch.ones(3), 5)
    if frontend == "trace":
        function, inputs = arithmetic, (torch.ones(3), torch.ones(3))
    assert minitorch2.bisect(function, *inputs, frontend=frontend, path=None).difference is None


def arithmetic(x, y):
    return (x + y).sin() * 2


def test_a_frontend_that_is_unknown_is_an_error():
    with pytest.raises(ConfigError, match="no frontend"):
        minitorch2.bisect(counted, torch.ones(3), 5, frontend="lzay", path=None)


def adds_until(x, log):
    y = x * 2
    i = 0
    while i < 3:
        y = y + 1
        i = i + 1
    log.append(i)
    return y


def test_a_cut_that_loses_the_end_of_a_loop_is_no_program():
    """Without `i = i + 1` the loop has no end, and the search would have none."""

    def fails(function):
        log = []
        return ends(function, [torch.ones(2), log]) and log == [3]

    small, _ = smallest(Source.of(adds_until), fails, seconds=60)
    assert small.size == 4, small.text  # the loop with its count, and what is logged


LEFT = []


def leaves_something(x):
    LEFT.append(1)
    y = x * 2
    print("seen", len(LEFT))
    LEFT.clear()
    return y


def test_what_a_cut_program_leaves_behind_is_not_there_for_the_next():
    """A cut that drops `LEFT.clear()` would let each later trial begin in another world."""
    whole = Bisection(Difference("value", "printed", ""), Blame(CAPTURE))
    cut_function(leaves_something, (torch.ones(2),), Trial(lookup_backend("eager")), whole, None)
    assert not LEFT


def test_printed_text_is_compared_but_for_rounded_numbers():
    """A compiled program that printed less used to count as right."""
    texts = ("a 1.25", "a 1.5", "b 1.5")
    said = [observed(lambda x, text=text: print(text), [torch.ones(1)]) for text in texts]
    assert first_difference(said[0], said[1], None, None) is None
    assert first_difference(said[0], said[2], None, None).where == "printed"


def test_a_jagged_result_is_compared_by_its_parts():
    """Its gradient has no tangent: the search used to end in an error of its own."""
    values = torch.ones(6, 4).requires_grad_()

    def rows(values, offsets):
        return torch.nested.nested_tensor_from_jagged(values, offsets) * 2

    seen = observed(rows, [values, torch.tensor([0, 2, 6])])
    assert {"result.values", "result.offsets", "gradient of input 0"} <= seen.values.keys()


def test_the_cache_is_blamed_for_what_only_the_cache_makes_wrong(tmp_path):
    """In a process of its own, which holds no program under the wrong key in its memory."""
    run(f"from {__name__} import blame_the_cache as b; b({str(tmp_path)!r})", preamble="")


def blame_the_cache(directory):
    """Check the search where the cache's key leaves the graph out."""

    def other(x):
        return x.cos() * 2

    def fill():
        minitorch2.compile(other, backend="numba")(torch.ones(3))

    same_key = Edit(graph_key.key_of_graph, "graph=digest,", 'graph="",')
    with same_key.planted(), config.patch(cache_dir=directory, verify=False):
        found = minitorch2.bisect(
            lambda x: x.sin() * 2, torch.ones(3), earlier=[fill], backend="numba",
            options={"cache": True, "verify": False}, path=None,
        )  # fmt: skip
    assert found.blame.floor.startswith("graph cache")


SCALE = torch.ones(4, requires_grad=True)


def hooks_and_removes(x):
    SCALE.grad = None
    handle = SCALE.register_hook(lambda gradient: gradient * 3)
    (x * SCALE).sum().backward()
    handle.remove()
    return SCALE.grad * 1


def test_a_run_that_raises_in_float64_leaves_nothing_for_the_compiled_one():
    """Its gradient has another dtype, so `remove` is never reached."""
    trial = Trial(lookup_backend("eager"))
    assert trial.difference_of(hooks_and_removes, [torch.ones(2, 4)]) is None
