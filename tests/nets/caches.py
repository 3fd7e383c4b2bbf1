"""Tests on a cache that other tests have filled, in sources that lie elsewhere.

    python -m tests.nets.caches --seed 3 --sample 40

A sample of the unit tests runs twice. The first time the cache is empty, and each test leaves what
it compiled. The second time it runs in another order, in a copy of the sources under another name,
on what all others have left. A test that passes the first time has to pass the second time.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.nets.report import VARIABLE, Tally

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/unit/api", "tests/unit/autograd", "tests/unit/codegen", "tests/unit/backends",
           "tests/unit/bytecode/torch_values", "tests/unit/bytecode/soundness")  # fmt: skip
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def environment(root: Path, cache: Path) -> dict[str, str]:
    """Sources below `root`; graphs are not verified, as that would leave the cache alone."""
    own = {"MINITORCH2_CACHE_DIR": str(cache), "MINITORCH2_VERIFY": "0", "OMP_NUM_THREADS": "1"}
    found = filter(None, [str(root / "src"), str(root), os.environ.get("PYTHONPATH")])
    return os.environ | own | {"PYTHONPATH": os.pathsep.join(found)}


def sample(count: int, seed: int) -> list[str]:
    """The ids of some tests."""
    command = [*PYTEST, "--collect-only", "-m", "not slow and not gpu", *FOLDERS]
    found = subprocess.run(
        command, cwd=ROOT, env=environment(ROOT, ROOT), capture_output=True, text=True, check=True
    )
    tests = [line for line in found.stdout.splitlines() if "::" in line]
    return random.Random(seed).sample(tests, min(count, len(tests)))


def outcomes(root: Path, cache: Path, tests: Sequence[str], report: Path) -> Tally:
    """Run tests below a root."""
    command = [*PYTEST, "-p", "tests.nets.report", *tests]
    settings = environment(root, cache) | {VARIABLE: str(report)}
    done = subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)
    if report.exists():
        return Tally.read(report)
    return Tally(crashed=1, failures=[f"crashed: {done.stdout[-400:]}{done.stderr[-400:]}"])


def compare(tests: Sequence[str], first: Tally, second: Tally) -> Tally:
    """What passed with an empty cache, and does not on that of others."""
    found = Tally(tried=len(tests))
    if second.failures and not second.outcomes:
        return second
    for test, outcome in second.outcomes.items():
        if outcome != "passed" and first.outcomes.get(test) == "passed":
            text = next(failure for failure in second.failures if test in failure)
            found.catch(test, text, outcome == "wrong")
    return found


def main(arguments: Sequence[str]) -> int:
    """Run, report, and say whether anything was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.nets.caches", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=40, help="how many tests")
    options = parser.parse_args(arguments)
    tests = sample(options.sample, options.seed)
    with tempfile.TemporaryDirectory(prefix="net-") as folder:
        work = Path(folder)
        renamed = work / f"renamed_{options.seed}"
        for name in ("src", "tests", "docs", "benchmarks", "examples"):
            ignored = shutil.ignore_patterns("__pycache__", "_build", "results")
            shutil.copytree(ROOT / name, renamed / name, ignore=ignored)
        for name in ("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / name, renamed / name)
        first = outcomes(ROOT, work / "cache", tests, work / "first.json")
        shuffled = random.Random(options.seed + 1).sample(tests, len(tests))
        second = outcomes(renamed, work / "cache", shuffled, work / "second.json")
    found = compare(tests, first, second)
    found.write()
    print("\n\n".join([f"{found.tried} tests, {found.caught} differ", *found.failures]))
    return int(found.caught > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
