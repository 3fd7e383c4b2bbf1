"""The page `docs/graph_breaks.md`, written from the table of reasons and from the examples.

`python -m tests.unit.bytecode.break_examples.page` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path

from minitorch2.bytecode.compiling.reasons import reasons
from minitorch2.errors.codes import ErrorCode
from tests.unit.bytecode import break_examples
from tests.unit.bytecode.break_examples import functions, modules, tensors, values

assert all((functions, modules, tensors, values))  # importing them fills the tables

PATH = Path(__file__).parents[4] / "docs" / "graph_breaks.md"

HEAD = """\
# Graph breaks

Capture may meet something that it does not model. Then the graph ends, Python does that one thing,
and a new graph begins behind it. Results are the same; fusion across that place is lost. `explain`
runs a program once and lists **all** its breaks, those that cost most first:

```python
import torch

import minitorch2


def normalized(x):
    x = x.sin()
    if x.max() > 0:
        x = x / x.max()
    return x


explanation = minitorch2.explain(normalized)(torch.ones(3))
(cost,) = explanation.costs
print(cost)
```

```output
File: docs/graph_breaks.md:15, code: if x.max() > 0:
  the program branches on the value of the tensor gt [data-dependent-branch]
  Fix: use torch.where or torch.cond, or move the branch out of the compiled function
  See python -m minitorch2 why data-dependent-branch
  Cost: operators: 1 outside graphs, 3 before the break and 2 behind it
```

`listing()` shows what became of each line. In a terminal `rich.print(explanation.listing())`
colours it, and `explanation.to_html()` is a page of its own:

```python
print(explanation.listing())
```

```output
docs/graph_breaks.md, normalized
captured            13  def normalized(x):
graph 0             14      x = x.sin()
graph 0, break      15      if x.max() > 0:
graph 1             16          x = x / x.max()
captured            17      return x
```

With `fullgraph=True` the first break is an error that shows the same. The word in brackets is a
stable code. These are all of them, each with the smallest program that breaks so, and where there
is one, a program that does the same in one graph. The tests of this project run each of them.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"\n{section}" for section in map(_section, reasons().values()))


def _section(reason: ErrorCode) -> str:
    return "\n".join(_lines(reason)) + "\n"


def _lines(reason: ErrorCode) -> Iterator[str]:
    yield from (f"## {reason.code}", "", f"{_sentence(reason.meaning)}")
    yield from ("", f"*What helps:* {reason.remedy}.")
    breaking = break_examples.BREAKING.get(reason.code)
    if breaking is not None:
        yield from ("", "```{code-block} python", breaking.text, "```")
    whole = break_examples.WHOLE.get(reason.code)
    if whole is not None:
        yield from ("", "One graph:", "", "```{code-block} python", whole.text, "```")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
