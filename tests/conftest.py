"""Set-up of all tests: seeds, verification on, errors raised, a kernel cache of the run's own."""

import gc
import importlib.util
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Before minitorch2 is imported, which reads these; workers of pytest-xdist inherit them.
os.environ.setdefault("MINITORCH2_VERIFY", "1")
os.environ.setdefault("MINITORCH2_NOTICE_SECONDS", "0")
os.environ.setdefault("MINITORCH2_SUPPRESS_ERRORS", "0")  # a failure is no fall-back in tests
os.environ.setdefault("MINITORCH2_CACHE_DIR", tempfile.mkdtemp(prefix="minitorch2-tests-"))

# Without a GPU, Triton kernels are interpreted; Triton reads this when it is imported.
if not os.path.exists("/dev/nvidiactl"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
settings.register_profile(
    "thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", deadline=None, max_examples=3, derandomize=True)
settings.register_profile(  # other examples with each seed: see tests/nets
    "net", deadline=None, max_examples=200, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
if settings().derandomize:
    # Hypothesis also draws constants that it finds in the modules imported so far. Without them
    # the examples do not depend on which tests ran before.
    providers._get_local_constants = providers.Constants

# The bytecode machine is also tested where torch is not installed.
HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts")
    parser.addoption(
        "--first-cases", action="store_true", help="of each parametrized test only the first case"
    )
    parser.addoption(
        "--seconds-a-file", type=float, default=inf, help="skip the rest of a file's tests then"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`golden(path, text)`: the file must hold this text; a missing file is an error."""
    update: bool = request.config.getoption("--update-golden")

    def compare(path: Path, text: str) -> None:
        if update:
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"there is no {path}: `pytest --update-golden` writes it"
        expected = path.read_text(encoding="utf-8")
        assert text == expected, f"{path} differs: `pytest --update-golden` rewrites it"

    return compare


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; keep first cases only, if asked to."""
    if config.getoption("--first-cases"):
        first = {item.nodeid.partition("[")[0]: item.nodeid for item in reversed(items)}
        kept = set(first.values())
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


_SECONDS: Counter[Path] = Counter()
"""How long the tests of each file have run."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure a test; the first test of a file always runs."""
    if _SECONDS[item.path] > item.config.getoption("--seconds-a-file"):
        item.add_marker(pytest.mark.skip(reason="the time of this file is over"))
    begin = perf_counter()
    done = yield
    _SECONDS[item.path] += perf_counter() - begin
    return done


def _has_cuda() -> bool:
    if not HAS_TORCH:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Each test starts from the same random state, whatever ran before it."""
    if HAS_TORCH:
        import torch

        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def garbage_is_collected() -> Iterator[None]:
    """No test leaves the collector of cyclic garbage off: later tests would not see leaks."""
    yield
    assert gc.isenabled(), "the collector of cyclic garbage was left off"


@pytest.fixture(scope="module", autouse=True)
def old_objects_uncollected() -> None:
    """Collections in a file's tests visit what the file has made, not what the whole run has made.

    The run keeps millions of objects: to visit all of them takes two seconds.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let the interpreter free all objects at its end."""
    gc.unfreeze()
