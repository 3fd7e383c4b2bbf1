"""What a net has tried and caught; as a pytest plugin, of the tests that it runs.

A test of Hypothesis has tried as many programs as it had examples, another one is one program. A
failure is one of three: `wrong` (an assertion), `lost` (eager raises an exception, compiled code
does not) or `crashed` (any other exception).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

VARIABLE = "MINITORCH2_TEST_NET_REPORT"
"""The environment variable that names the file of the report."""
_EXAMPLES = re.compile(r"(\d+) (?:passing|failing|invalid)")
_LOST = re.compile(r"raised None, eager raises (?!None)|no error instead of |DID NOT RAISE")


@dataclass
class Tally:
    """Counts, the first lines of each failure, and the outcome of each test by its id."""

    tried: int = 0
    wrong: int = 0
    crashed: int = 0
    lost: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)

    def catch(self, name: str, error: str, is_assertion: bool) -> None:
        """Count a failure by its kind."""
        kind = "lost" if _LOST.search(error) else "wrong" if is_assertion else "crashed"
        setattr(self, kind, getattr(self, kind) + 1)
        self.outcomes[name] = kind
        self.failures.append(f"{kind}: {name}: {error[:600]}")

    def add(self, other: Tally) -> None:
        """Take in what another turn has found."""
        for name in ("tried", "wrong", "crashed", "lost", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures += other.failures

    @property
    def caught(self) -> int:
        """How many failures there are."""
        return self.wrong + self.crashed + self.lost

    def write(self) -> None:
        """Write the report where the runner reads it; nowhere if there is none."""
        if VARIABLE in os.environ:
            Path(os.environ[VARIABLE]).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Tally:
        """The report in a file."""
        return Tally(**json.loads(path.read_text(encoding="utf-8")))


TALLY = Tally()


def examples_of(item: pytest.Item) -> int:
    """How many programs a test has tried."""
    statistics = str(getattr(item, "hypothesis_statistics", ""))
    return sum(map(int, _EXAMPLES.findall(statistics))) or 1


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Count a test when it has run."""
    outcome = yield
    if call.when != "call" or outcome.get_result().skipped:
        return
    TALLY.tried += examples_of(item)
    error = call.excinfo
    if error is None:
        TALLY.outcomes[item.nodeid] = "passed"
    elif not hasattr(item, "wasxfail"):
        text = f"{error.typename}: {error.value}"
        TALLY.catch(item.nodeid, text, error.errisinstance(AssertionError))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report."""
    TALLY.write()
