"""The report of a compilation: stages, seconds per phase, counts."""

import ast
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minitorch2 import stages

ROOT = Path(__file__).parents[2]
COMPUTED = {"f'{kind}s'": ("fallbacks", "library_calls"), "name": ()}
"""Names of counters that are no literals in the code; `name` repeats those of a graph's entry."""


def counted_names() -> Iterator[str]:
    """The names of all counters, as the code says them."""
    for path in (ROOT / "src").rglob("*.py"):
        function = "count" if path.parent.name == "stages" else "stages.count"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    yield name.value
                else:
                    yield from COMPUTED[ast.unparse(name)]


def test_the_page_of_counters_names_each_counter():
    page = (ROOT / "docs" / "counters.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    assert sorted(rows) == sorted(set(counted_names()))


def test_nothing_happens_without_a_log():
    stages.record("graph", "x")
    stages.count("kernels")
    with stages.phase("lower"):
        pass
    assert stages.open_logs() == ()


def test_collects_in_order():
    with stages.collect() as log:
        stages.record("graph", "one")
        stages.record("guards.py", "two")
        stages.record("graph", "three")
        stages.count("kernels")
        stages.count("kernels", 2)
    stages.record("graph", "four")
    assert [stage.text for stage in log.stages] == ["one", "two", "three"]
    assert log.texts("graph") == ["one", "three"]
    assert log.counts == {"kernels": 3}


def test_nested_logs_both_hear():
    with stages.collect() as outer:
        with stages.collect() as inner:
            stages.count("graphs")
        stages.count("graphs")
    assert (outer.counts["graphs"], inner.counts["graphs"]) == (2, 1)


def test_phases_add_up_without_counting_twice():
    with stages.collect() as log:
        start = time.perf_counter()
        with stages.phase("codegen"):
            time.sleep(0.02)
            with stages.phase("kernel_compile"):
                time.sleep(0.04)
            with stages.phase("kernel_compile"):
                time.sleep(0.01)
        total = time.perf_counter() - start
    assert log.seconds["kernel_compile"] >= 0.05
    assert 0.02 <= log.seconds["codegen"] < total - 0.05 + 1e-3
    assert sum(log.seconds.values()) == pytest.approx(total, abs=2e-3)


def test_a_phase_that_raises_is_still_charged():
    with stages.collect() as log, pytest.raises(ValueError), stages.phase("lower"):
        raise ValueError
    assert list(log.seconds) == ["lower"]


def test_another_thread_can_continue_a_log():
    with stages.collect() as log:
        kept = stages.open_logs()
        stages.count("graphs")

    def compile_backward() -> None:
        stages.count("graphs")  # nobody listens on this thread yet
        with stages.collect_into(kept):
            stages.count("graphs")

    thread = threading.Thread(target=compile_backward)
    thread.start()
    thread.join()
    assert log.counts["graphs"] == 2


def test_write_numbers_the_files(tmp_path):
    with stages.collect() as log:
        stages.record("bytecode", "RESUME 0")
        stages.record("kernels/numba.py", "x = 1\n")
    paths = log.write(tmp_path / "new")
    assert [path.name for path in paths] == ["001_bytecode.txt", "002_kernels_numba.py"]
    assert [path.read_text() for path in paths] == ["RESUME 0\n", "x = 1\n"]


def test_counters_of_the_process_count_without_a_log():
    before = stages.counters().get("kernels", 0)
    stages.count("kernels", 2)
    assert stages.counters()["kernels"] == before + 2
    stages.counters()["kernels"] = 0  # a copy
    assert stages.counters()["kernels"] == before + 2


def test_a_log_without_texts_wants_none():
    with stages.collect(texts=False) as times:
        assert not stages.wanted("graph.py")
        stages.record("graph.py", "text")
        stages.count("graphs")
        with stages.collect() as log:
            assert stages.wanted("graph.py")
            stages.record("graph.py", "another")
    assert times.stages == [] and times.counts["graphs"] == 1
    assert log.texts("graph.py") == ["another"]
