"""Exercises of the chapter on TorchScript."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.course.exercise import exercise

PAGE = "layers/script"


def doublings(x: Tensor, limit: int) -> int:
    """Return how often a tensor must be doubled until its sum reaches a limit."""
    count = 0
    while bool(x.sum() < limit):
        x = x * 2
        count += 1
    return count


def carried_by_the_loop() -> list[str]:
    """Return the names of the values that the loop of `doublings` carries."""
    graph = jit.script(doublings).graph
    (loop,) = (node for node in graph.nodes() if node.kind == "prim::Loop")
    return [output.name for output in loop.outputs]


@exercise(
    PAGE,
    "look",
    question="""
        How many values does the loop of `doublings` carry from turn to turn? Set `carried`.
        Which variables of the function are they, and why is `limit` none of them?
    """,
    stub="""
        from minitorch2 import jit
        from minitorch2.course.exercises.scripts import doublings

        print(jit.script(doublings).graph)
        carried = ...
    """,
    hints=("The outputs of `prim::Loop` are what it carries.", "A loop carries what it stores."),
    solution="""
        from minitorch2.course.exercises.scripts import carried_by_the_loop

        carried = len(carried_by_the_loop())
    """,
)
def count_carried(carried: int) -> None:
    """Count the loop's outputs."""
    found = carried_by_the_loop()
    assert carried == len(found), f"{carried} is not the number of outputs of the loop"


@exercise(
    PAGE,
    "change",
    question="""
        This function cannot be scripted. Read the error, and change the function so that it
        can be. What it computes stays.
    """,
    stub="""
        def repeated(x, steps):
            for step in range(steps):
                x = x * 2 + step
            return x
    """,
    hints=("What a script is not told is a tensor.", "Annotate `steps`."),
    solution="""
        def repeated(x, steps: int):
            for step in range(steps):
                x = x * 2 + step
            return x
    """,
)
def give_types(repeated: Callable[..., Tensor]) -> None:
    """Script it, and compare for several numbers of steps."""
    try:
        scripted = jit.script(repeated)
    except jit.ScriptError as error:
        raise AssertionError(str(error)) from error
    for times in (0, 1, 4):
        expected = torch.ones(2)
        for step in range(times):
            expected = expected * 2 + step
        torch.testing.assert_close(scripted(torch.ones(2), times), expected)


@exercise(
    PAGE,
    "build",
    question="""
        Write `travel(module)`: script a module, save it to bytes, and return what is loaded
        from them. The result shares nothing with the module.
    """,
    stub="""
        from minitorch2 import jit


        def travel(module):
            return jit.script(module)
    """,
    hints=("`io.BytesIO` is a file in memory.", "Go back to its start before you load."),
    solution="""
        import io

        from minitorch2 import jit


        def travel(module):
            file = io.BytesIO()
            jit.save(jit.script(module), file)
            file.seek(0)
            return jit.load(file)
    """,
)
def save_and_load(travel: Callable[[torch.nn.Module], Any]) -> None:
    """Change the module after the journey, and compare with before."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    x = torch.randn(4, 3)
    loaded, expected = travel(module), module(x).detach()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    found = loaded(x).detach()
    assert torch.allclose(found, expected, atol=1e-6), "it changes with the module, or is wrong"


@exercise(
    PAGE,
    "build",
    question="""
        Write `run(block, values)`, an interpreter of graphs with blocks. A block is a list of
        nodes, and `values` a dict from names to numbers, which it fills. A node is `(result,
        "add" or "mul" or "lt", left, right)`, or `("if", condition, then, otherwise)`, or
        `("loop", condition, body)`, which runs its body while the value named `condition` is
        true. Operands are names or numbers.
    """,
    stub="""
        def run(block, values):
            for node in block:
                print(node)
    """,
    hints=(
        "Blocks are run by `run` itself.",
        "`values.get(operand, operand)` is a number for a name and for a number.",
    ),
    solution="""
        import operator


        def run(block, values):
            for node in block:
                if node[0] == "if":
                    run(node[2] if values[node[1]] else node[3], values)
                elif node[0] == "loop":
                    while values[node[1]]:
                        run(node[2], values)
                else:
                    result, name, left, right = node
                    operands = values.get(left, left), values.get(right, right)
                    values[result] = getattr(operator, name)(*operands)
    """,
)
def interpret_blocks(run: Callable[..., Any]) -> None:
    """Run a loop with a branch inside on several numbers."""
    program = [
        ("go", "lt", "n", 50),
        (
            "loop",
            "go",
            [
                ("small", "lt", "n", 10),
                ("if", "small", [("n", "mul", "n", 2)], [("n", "add", "n", 7)]),
                ("turns", "add", "turns", 1),
                ("go", "lt", "n", 50),
            ],
        ),
    ]
    draw = random.Random(0)
    for start in [60, *(draw.randint(1, 40) for _ in range(10))]:
        values = {"n": start, "turns": 0}
        run(program, values)
        n, turns = start, 0
        while n < 50:
            n, turns = (n * 2 if n < 10 else n + 7), turns + 1
        found = values["n"], values["turns"]
        assert found == (n, turns), f"from {start} it ends with {(n, turns)}, not {found}"
