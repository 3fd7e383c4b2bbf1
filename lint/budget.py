"""Count the lines of each floor and compare them with the budget: `python -m lint.budget`.

One person shall be able to read all of the project, so a new capability replaces code, or shares
it, before it adds code. The budget may be lowered and is never raised. Functions keep their length
and docstrings: to squeeze lines is no saving.

The program prints a line for each floor and exits with 1 if there are more lines than the budget.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "minitorch2"
BUDGET = 82_125  # lines of Python in src/, without extensions and rooms beside the compiler
EXTENSIONS = (
    "bytecode/numpy_capture",
    "bytecode/optimizer_capture",
    "bytecode/kernel_capture",
    "bytecode/observe",
    "codegen/triton/templates",
)
"""Folders that register themselves: no file of core may import them."""
BESIDE = ("lazy", "script", "codegen/halide", "explorer", "exporting", "distributed", "course")
"""Folders that a reader of the PyTorch 2 paper does not need: the capture systems of other papers,
a third target, the tool that shows all stages, export, what the ranks of a job compare, and the
checks of the course's exercises."""
NOT_CORE = EXTENSIONS + BESIDE


def lines_by_floor() -> Counter[str]:
    """Return the number of lines of Python below each folder of `src/minitorch2`."""
    lines: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        lines[floor_of(path.relative_to(SOURCE))] += len(path.read_text().splitlines())
    return lines


def floor_of(path: Path) -> str:
    """Return the floor that a file is counted for; `path` is relative to `src/minitorch2`."""
    folders = [parent.as_posix() for parent in path.parents][-2::-1]
    beside = next((folder for folder in folders if folder in NOT_CORE), None)
    return beside or (folders[0] if folders else "public modules")


def main() -> int:
    """Print the lines of each floor; return the exit status."""
    lines = lines_by_floor()
    for floor, count in lines.most_common():
        print(f"{count:7,}  {floor}")
    total = lines.total() - sum(lines[floor] for floor in NOT_CORE)
    print(f"{total:7,}  of {BUDGET:,}, without {', '.join(NOT_CORE)}")
    return total > BUDGET


if __name__ == "__main__":
    sys.exit(main())
