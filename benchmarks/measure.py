"""Check, then time: each case by every compiler, taking turns."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.cases import Case, same
from benchmarks.compilers import EAGER, Compiler
from minitorch2.demo.timing import medians, rounds, seconds

SECONDS_A_CASE = 2.0


@dataclass(frozen=True)
class Result:
    """Median seconds of one call by compiler; which compilers' results were wrong."""

    case: str
    seconds: dict[str, float]
    wrong: list[str]

    def speedup(self, compiler: str, over: str = EAGER) -> float:
        """How many times as fast `compiler` is as `over`."""
        return self.seconds[over] / self.seconds[compiler]


def measure(case: Case, compilers: dict[str, Compiler]) -> Result:
    """Compile, compare with eager on two sets of fresh inputs, then time on a third."""
    functions = {name: case.build(compiler) for name, compiler in compilers.items()}
    wrong = set()
    for _ in range(2):
        inputs = case.fresh_inputs()
        expected = functions[EAGER](*inputs)
        wrong |= {name for name, f in functions.items() if not same(f(*inputs), expected)}
    inputs = case.fresh_inputs()
    runs = {name: lambda f=f: f(*inputs) for name, f in functions.items()}
    once = sum(seconds(run) for run in runs.values())
    count = max(5, min(2000, int(SECONDS_A_CASE / once)))
    return Result(case.name, medians(list(rounds(runs, count))), sorted(wrong))


def measure_all(cases: list[Case], compilers: dict[str, Compiler]) -> Iterator[Result]:
    """Measure the cases one by one."""
    for case in cases:
        yield measure(case, compilers)
