"""Seconds to the first result, in a process of its own: cold, then with a warm cache.

`python -m minitorch2.demo.first_result encoder minitorch2` measures here and prints JSON;
`first_results` runs that command twice with one fresh cache folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from minitorch2 import stages
from minitorch2.demo.timing import seconds
from minitorch2.demo.workloads import COMPILERS, WORKLOADS

# Where the compilers keep what they made: ours, the peer's, and the one that both share.
CACHE_VARIABLES = ("MINITORCH2_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@dataclass(frozen=True)
class FirstResult:
    """One process: the seconds from a loaded model to its first result, and counts of stages."""

    seconds: float
    counts: dict[str, int]
    phases: dict[str, float]


def first_results(
    workload: str, compiler: str, stages_directory: Path | None = None
) -> Iterator[FirstResult]:
    """Measure with an empty cache, then in a second process with the cache of the first.

    The first of the two processes writes its stages to `stages_directory`, if one is given.
    """
    with tempfile.TemporaryDirectory(prefix="minitorch2-demo-") as cache:
        yield _in_process(workload, compiler, cache, stages_directory)
        yield _in_process(workload, compiler, cache, None)


def _in_process(workload: str, compiler: str, cache: str, stages: Path | None) -> FirstResult:
    command = [sys.executable, "-m", "minitorch2.demo.first_result", workload, compiler]
    environment = os.environ | {name: str(Path(cache, name)) for name in CACHE_VARIABLES}
    environment |= {"MINITORCH2_STAGES_DIR": str(stages / workload)} if stages else {}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return FirstResult(**json.loads(done.stdout.splitlines()[-1]))


def measure(workload: str, compiler: str) -> FirstResult:
    """Compile and run a workload once, here."""
    with stages.collect(texts=False) as log:
        run = WORKLOADS[workload](COMPILERS[compiler])
        spent = seconds(run)
    return FirstResult(spent, dict(log.counts), dict(log.seconds))


def main(arguments: Sequence[str]) -> None:
    """Measure once and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("compiler", choices=COMPILERS)
    options = parser.parse_args(arguments)
    print(json.dumps(asdict(measure(options.workload, options.compiler))))


if __name__ == "__main__":
    main(sys.argv[1:])
