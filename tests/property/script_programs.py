"""Random programs of scripts: CPython and five ways of running the program's graph agree.

    python -m tests.property.script_programs --count 10000
    python -m tests.property.script_programs --count 10000 --without-plans     twice as fast
    python -m tests.property.script_programs --seed 17         shows one program

All variables have a value and a type from the beginning, so a program is legal in Python and in
TorchScript alike. Integers stay small: those of TorchScript have 64 bits. The ways are the
interpreter, generated Python, the graph that its text is parsed to, the function that its printed
code is compiled to, and the executor, whose third call runs an optimized plan. torch.jit reads the
archive of each program.
"""

from __future__ import annotations

import argparse
import copy
import io
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from minitorch2.script.archive.archive import save
from minitorch2.script.archive.print_code import print_code
from minitorch2.script.archive.read_code import read_code
from minitorch2.script.frontend.compile import CompiledFunction, compile_tree
from minitorch2.script.frontend.resolver import text_resolver
from minitorch2.script.ir.graph import NOT_CONSTANT, Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.verify import verify
from minitorch2.script.modules.function import ScriptFunction
from minitorch2.script.passes.propagate_constants import propagate_constants
from minitorch2.script.runtime.executor import GraphExecutor
from minitorch2.script.runtime.interpreter import interpret
from minitorch2.script.runtime.python_code import compile_graph
from minitorch2.script.syntax.parser import parse_function
from minitorch2.script.syntax.source import SourceFile

HEAD = """def f(a: int, b: int, x: float, t: Tensor, items: List[int]):
    u = t * 2
    part = u[1:]
    rows = [u, t]
    flag = a > b
    maybe: Optional[Tensor] = None
    count: Optional[int] = None
"""
RESULT = "a, b, x, u, items, part, rows, maybe, count"


class Writer:
    """Writes the body of a program, statement by statement."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counters = 0

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    # Expressions ---------------------------------------------------------------------------------

    def whole(self, depth: int = 2) -> str:
        """Return an expression of type int."""
        if depth == 0 or self.random.random() < 0.3:
            return str(self.one_of("a", "b", self.random.randint(-3, 9), "len(items)"))
        left, right = self.whole(depth - 1), self.whole(depth - 1)
        return str(
            self.one_of(
                f"({left} {self.one_of('+', '-', '*', '//', '%')} {right}) % 1000",
                f"({left} if {self.truth(depth - 1)} else {right})",
                f"max({left}, {right})",
                f"abs({left})",
                "int(x)",
                f"items[({left}) % 3]",
                "sum(items)",
                "-a",
            )
        )

    def real(self, depth: int = 2) -> str:
        """Return an expression of type float."""
        if depth == 0:
            return str(self.one_of("x", "0.5", "-1.25", "float(a)"))
        left, right = self.real(depth - 1), self.real(depth - 1)
        return str(
            self.one_of(
                f"({left} {self.one_of('+', '-', '*')} {right}) % 8.0",
                f"({left} if {self.truth(depth - 1)} else {right})",
                f"min({left}, {right})",
                f"{self.whole(depth - 1)} / 4",
            )
        )

    def truth(self, depth: int = 2) -> str:
        """Return an expression of type bool."""
        if depth == 0:
            return str(self.one_of("flag", "a < b", "x > 0.5", "True"))
        return str(
            self.one_of(
                f"{self.whole(depth - 1)} {self.comparison()} {self.whole(depth - 1)}",
                f"({self.truth(depth - 1)} {self.one_of('and', 'or')} {self.truth(depth - 1)})",
                f"not {self.truth(depth - 1)}",
                f"{self.whole(0)} in items",
                "bool(u.sum() > 1)",
                "bool((u.sum() > 1).item())",
                f"{self.one_of('u', 'part', 'rows[0]')}.dtype == torch.float{self.one_of(32, 64)}",
                f"{self.whole(0)} < {self.whole(0)} <= {self.whole(0)}",
            )
        )

    def comparison(self) -> str:
        return str(self.one_of("<", "<=", "==", "!=", ">"))

    def tensor(self, depth: int = 2) -> str:
        """Return an expression of type Tensor."""
        if depth == 0:
            return str(self.one_of("u", "t"))
        inner = self.tensor(depth - 1)
        return str(
            self.one_of(
                f"({inner} {self.one_of('+', '-', '*')} {self.tensor(depth - 1)}).clamp(-9, 9)",
                f"({inner} * {self.real(0)}).clamp(-9, 9)",
                f"({inner} + {self.whole(0)}).clamp(-9, 9)",
                f"torch.relu({inner})",
                f"{inner}.neg()",
                f"torch.where({inner} > 0, {inner}, u)",
                f"{inner}.flip(0)",
            )
        )

    # Statements ----------------------------------------------------------------------------------

    def body(self, indent: int, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth)

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, indent: int, depth: int) -> None:
        kinds: list[Callable[[int, int], None]] = [self.assignment, self.assignment, self.write]
        kinds += [self.refinement]
        if depth:
            kinds += [self.branch, self.branch, self.loop, self.while_loop]
        if indent > 1:
            kinds += [self.leaving]
        self.one_of(*kinds)(indent, depth)

    def assignment(self, indent: int, _: int) -> None:
        self.line(
            indent,
            self.one_of(
                f"a = {self.whole()}",
                f"b = {self.whole()}",
                f"x = {self.real()}",
                f"flag = {self.truth()}",
                f"u = {self.tensor()}",
                f"a, b = {self.whole(1)}, {self.whole(1)}",
                f"a {self.one_of('+', '-')}= {self.whole(0)}",
            ),
        )

    def write(self, indent: int, _: int) -> None:
        self.line(
            indent,
            self.one_of(
                f"items[{self.random.randint(0, 2)}] = {self.whole(1)}",
                f"items.append({self.whole(1)})",
                f"u[{self.random.randint(0, 2)}] = {self.real(0)}",
                "u += 1",
                "u.mul_(0.5)",
                "part.mul_(0.5)",
                "part = u[1:]",
                "rows[0].add_(1)",
                "rows.append(u)",
                f"u = rows[{self.one_of(0, -1)}]",
                "rows += [u.neg()]",
                f"items = [i + {self.whole(0)} for i in items]",
                f"maybe = {self.one_of('None', 'u', 'u.neg()')}",
                f"maybe = u if {self.truth(0)} else None",
                f"count = {self.one_of('None', 'a', self.whole(1))}",
            ),
        )

    def refinement(self, indent: int, _: int) -> None:
        """Use an optional value where it cannot be None."""
        test, use, other = self.one_of(
            ("maybe is not None", "u = (u + maybe).clamp(-9, 9)", "maybe = u"),
            ("count is not None", "a = (a + count) % 1000", "count = b"),
            ("maybe is not None and count is not None", "maybe = maybe + count", "flag = not flag"),
        )
        self.line(indent, f"if {test}:")
        self.line(indent + 1, use)
        if self.random.random() < 0.5:
            self.line(indent, "else:")
            self.line(indent + 1, other)

    def branch(self, indent: int, depth: int) -> None:
        self.line(indent, f"if {self.truth()}:")
        self.body(indent + 1, depth - 1)
        for _ in range(self.random.randint(0, 1)):
            self.line(indent, f"elif {self.truth(1)}:")
            self.body(indent + 1, depth - 1)
        if self.random.random() < 0.5:
            self.line(indent, "else:")
            self.body(indent + 1, depth - 1)

    def loop(self, indent: int, depth: int) -> None:
        self.counters += 1
        name = f"i{self.counters}"
        trips = self.one_of(f"range({self.whole(1)} % 5)", "range(1, 7, 2)", "[2, 3]")
        self.line(indent, f"for {name} in {trips}:")
        self.line(indent + 1, f"a = (a + {name}) % 1000")
        self.loops += 1
        self.body(indent + 1, depth - 1)
        self.loops -= 1

    def while_loop(self, indent: int, depth: int) -> None:
        self.counters += 1
        name = f"left{self.counters}"
        self.line(indent, f"{name} = {self.random.randint(1, 4)}")
        self.line(indent, f"while {name} > 0 and {self.truth(1)}:")
        self.line(indent + 1, f"{name} -= 1")
        self.loops += 1
        self.body(indent + 1, depth - 1)
        self.loops -= 1

    def leaving(self, indent: int, _: int) -> None:
        if self.loops and self.random.random() < 0.6:
            self.line(indent, self.one_of("break", "continue"))
        elif self.random.random() < 0.7:
            self.line(indent, f"return {RESULT}")
        else:
            self.line(indent, 'raise ValueError("given up")')


def text_of(seed: int) -> str:
    """Return the text of a program."""
    writer = Writer(seed)
    for _ in range(writer.random.randint(2, 4)):
        writer.statement(1, 3)
    return HEAD + "\n".join(writer.lines) + f"\n    return {RESULT}\n"


def arguments(seed: int) -> list[Any]:
    """Return arguments for a program."""
    draw = random.Random(seed)
    numbers = [float(draw.randint(-8, 8)) / 4 for _ in range(3)]
    items = [draw.randint(-9, 9) for _ in range(3)]
    return [draw.randint(-9, 9), draw.randint(-9, 9), numbers[0], torch.tensor(numbers), items]


def outcome(function: Callable[..., Any], given: list[Any]) -> Any:
    """Return the results and the arguments afterwards, or the class of the exception."""
    given = copy.deepcopy(given)
    try:
        result = function(*given)
    except (ValueError, ZeroDivisionError, IndexError, RuntimeError) as error:
        return type(error)
    return result, given


def python_of(text: str) -> Callable[..., Any]:
    """Return the program as CPython runs it."""
    names: dict[str, Any] = {"torch": torch}
    exec("from __future__ import annotations\n" + text, names)
    function: Callable[..., Any] = names["f"]
    return function


def script_of(text: str) -> CompiledFunction:
    """Return the program as a graph and its schema."""
    definition = parse_function(SourceFile(text, "<program>"))
    compiled = compile_tree(definition, text_resolver({"torch": torch}))
    verify(compiled.graph)
    return compiled


def graph_of_code(compiled: CompiledFunction) -> Graph:
    """Return the graph that the printed code of a program is compiled to."""
    graph = read_code(print_code(compiled.graph, compiled.schema)).graph
    verify(graph)
    return graph


def read_by_peer(compiled: CompiledFunction) -> None:
    """Let torch.jit read the archive of a program.

    It does not run the program: it ends the process at a division by zero, and gives other numbers
    than CPython for some of these programs, whether it reads our archive or compiles the text. It
    computes constants while it reads, so a division of constants by zero ends the process, too.

    Raises:
        RuntimeError: torch.jit cannot read it.
    """
    if divides_constants_by_zero(compiled.graph):
        return
    file = io.BytesIO()
    save(ScriptFunction(compiled), file)
    file.seek(0)
    torch.jit.load(file)


def divides_constants_by_zero(graph: Graph) -> bool:
    """Return whether all constants that can be computed leave a division of ints by zero."""
    known = graph.copy()
    propagate_constants(known)
    divisions = (n for n in known.nodes() if n.kind in ("aten::remainder", "aten::floordiv"))
    return any(n.constant(1) == 0 and n.constant(0) is not NOT_CONSTANT for n in divisions)


def check(seed: int, *, plans: bool = True) -> None:
    """Run a program in all ways, three times each.

    Args:
        seed: of the program.
        plans: whether the executor is among the ways. It takes half of the time.

    Raises:
        AssertionError: two ways differ.
    """
    text = text_of(seed)
    python, compiled = python_of(text), script_of(text)
    graph = compiled.graph
    ways = {
        "interpreter": interpret(graph),
        "generated Python": compile_graph(graph),
        "graph of its text": compile_graph(parse_graph(str(graph))),
        "function of its code": compile_graph(graph_of_code(compiled)),
    }
    if plans:
        ways["executor"] = GraphExecutor(graph.copy()).run
    read_by_peer(compiled)
    for k in range(3):
        given = arguments(seed + k)
        wanted = outcome(python, given)
        for name, way in ways.items():
            found = outcome(lambda *a, way=way, name=name: _call(way, name, a), given)
            assert_same(found, wanted, f"{name}, call {k}, program {seed}\n{text}")


def _call(way: Callable[..., Any], name: str, given: Any) -> Any:
    return way(given) if name == "executor" else way(*given)


def assert_same(found: Any, wanted: Any, message: str) -> None:
    """Compare outcomes: exactly, but for rounding in tensors."""
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted, msg=lambda text: f"{text}\n{message}")
    elif isinstance(wanted, tuple | list):
        assert type(found) is type(wanted) and len(found) == len(wanted), f"{found}\n{message}"
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other, message)
    else:
        assert found == wanted and type(found) is type(wanted), f"{found} {wanted}\n{message}"


def main() -> int:
    """Return the exit status: 1 if a program is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--without-plans", action="store_true")
    options = parser.parse_args()
    if options.seed is not None:
        print(text_of(options.seed))
        check(options.seed)
        return 0
    wrong = 0
    for seed in range(options.start, options.start + options.count):
        try:
            check(seed, plans=not options.without_plans)
        except Exception as error:
            wrong += 1
            print(f"WRONG {seed}: {type(error).__name__}: {str(error)[:300]}")
    print(f"{options.count} programs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
