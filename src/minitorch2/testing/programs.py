"""Random Python functions on tensors: a Hypothesis strategy to point at any PyTorch compiler.

    @given(programs())
    def test_my_compiler(program):
        program.check(my_compile)

A program is a module with globals, helper functions, a class, and a function ``f(x, y, n, items,
table, box)`` that mixes tensor operations with plain Python: arithmetic, containers, loops,
branches on numbers and on data, mutation of arguments, globals, attributes and closures,
exceptions, prints, nested functions, generators and comprehensions. Every program ends. It is
compared with plain CPython by all that a caller can see: value, printed text, exception, arguments
and globals afterwards.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import FunctionType
from typing import Any

import torch
from hypothesis import strategies as st

from minitorch2.testing.assertions import assert_same_observation, observe

INDENT = "    "
_NUMBERS = count()

PRELUDE = """\
import torch

counter = 0
history = []

class Box:
    def __init__(self, value):
        self.value = value
        self.seen = 0

    def scaled(self, factor):
        self.seen += 1
        return self.value * factor

    @property
    def double(self):
        return self.value + self.value

    def __len__(self):
        return 3

def double_all(*values, offset=1, **named):
    return [value + offset for value in values] + list(named.values())

def bump(amount):
    global counter
    counter += amount
    return counter

def speak(value):
    print("speak", value)
    return value

def positives(values):
    for value in values:
        if value > 0:
            yield value

"""


@dataclass(frozen=True)
class Program:
    """One random program; `source` defines ``f`` and everything it uses."""

    source: str

    def load(self) -> FunctionType:
        """Run the source in a fresh module; the function ``f`` of that module."""
        file = f"<program {next(_NUMBERS)}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
        namespace: dict[str, Any] = {"__name__": "program"}
        exec(compile(self.source, file, "exec"), namespace)
        function = namespace["f"]
        assert isinstance(function, FunctionType)
        return function

    def arguments(self, function: FunctionType, variant: int) -> list[object]:
        """Fresh arguments; variants differ in the values, and so in the branches that are taken."""
        generator = torch.Generator().manual_seed(variant)
        x, y = torch.randn(2, 3, generator=generator)
        box = function.__globals__["Box"](y + 1)
        return [x, y, variant % 3, [1, -2, variant], {"a": 1, "b": x * 2}, box]

    def check(
        self,
        compile: Callable[[Any], Callable[..., Any]],
        variants: int = 3,
        tolerance: float = 0.0,
    ) -> None:
        """Compare a compiler with plain CPython on several arguments, each twice.

        Args:
            compile: the compiler; it may change the function's globals when its result is called.
            variants: how many different arguments.
            tolerance: absolute and relative difference allowed between numbers of tensors.

        Raises:
            AssertionError: a caller can tell the two apart.
        """
        plain, original = self.load(), self.load()
        compiled = compile(original)
        for variant in [v for v in range(variants) for _ in range(2)]:
            wanted_args = self.arguments(plain, variant)
            given_args = self.arguments(original, variant)
            wanted = observe(plain, wanted_args, [wanted_args, _globals(plain)])
            given = observe(compiled, given_args, [given_args, _globals(original)])
            assert_same_observation(given, wanted, tolerance)


def _globals(function: FunctionType) -> dict[str, object]:
    """The globals that programs change."""
    return {name: function.__globals__[name] for name in ("counter", "history")}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A strategy for random programs."""
    writer = _Writer(draw)
    writer.block(draw(st.integers(2, 7)), depth=0)
    result = ", ".join(["x", "y", "n", *writer.tensors[2:5], *writer.numbers[1:3]])
    lines = ["def f(x, y, n, items, table, box):", f"{INDENT}global counter"]
    lines += [INDENT + line for line in [*writer.lines, f"return ({result})"]]
    return Program(PRELUDE + "\n".join(lines) + "\n")


class _Writer:
    """Writes statements; remembers which variables are surely bound, by kind."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.indent = 0
        self.tensors = ["x", "y"]
        self.numbers = ["n"]
        self.names = count()

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def emit(self, text: str) -> None:
        self.lines.append(INDENT * self.indent + text)

    def new(self, prefix: str) -> str:
        return f"{prefix}{next(self.names)}"

    # Expressions -------------------------------------------------------------------------------

    def tensor(self, depth: int = 2) -> str:
        """A tensor of shape (3,)."""
        if depth == 0:
            return self.pick(*self.tensors)
        a, b = self.tensor(depth - 1), self.tensor(depth - 1)
        form = self.pick(
            "{a}", "({a} + {b})", "({a} - {b})", "({a} * 0.5)", "({a} + {n})", "torch.sin({a})",
            "{a}.abs()", "torch.where({a} > {b}, {a}, {b})", "torch.stack([{a}, {b}]).sum(0)",
            "({a} if {c} else {b})", "box.scaled({n})", "box.double", "table['b']",
            "{a}.clone()", "torch.cat([{a}, {b}])[:3]", "-{a}", "(lambda t: t + {b})({a})",
            "sum([{a}, {b}])", "[{a}, {b}][{n} % 2]", "{a}[[2, 1, 0]]", "torch.relu({a})",
        )  # fmt: skip
        return form.format(a=a, b=b, n=self.number(0), c=self.condition())

    def number(self, depth: int = 1) -> str:
        """A small integer."""
        if depth == 0:
            return self.pick(*self.numbers, "1", "2", "3")
        a, b = self.number(depth - 1), self.number(depth - 1)
        form = self.pick(
            "{a}", "({a} + {b}) % 7", "({a} * {b}) % 5", "len(items) % 5", "{a} - {b}",
            "{t}.shape[0]", "len({t})", "{t}.ndim", "items[0] % 3 if items else 0", "counter % 4",
            "max({a}, {b})", "len(box)", "box.seen % 3", "int({c})", "abs({a})",
            "sum(v for v in positives([{a}, {b}]))", "len(str({a}))", "(items + [0])[-1] % 3",
            "table.get('z', {a}) % 4", "sum([i * {a} for i in range(3)]) % 5",
            "{{'p': {a}}}['p']", "bump(1) % 3", "int({t}.abs().sum().item() > 2)",
        )  # fmt: skip
        return form.format(a=a, b=b, t=self.tensor(0), c=self.condition())

    def condition(self) -> str:
        a, b = self.number(0), self.number(0)
        form = self.pick(
            "{a} < {b}", "{a} == {b}", "'a' in table", "{a} in items", "not items", "{a} > 1",
            "isinstance({a}, int)", "{t} is x", "box.seen > {a}", "{a} and {b}", "{a} or items",
            "counter % 2", "{a} <= {b} < 4", "hasattr(box, 'extra')", "{t}.dim() == 1",
        )  # fmt: skip
        return form.format(a=a, b=b, t=self.tensor(0))

    def data_condition(self) -> str:
        form = self.pick("{t}.sum() > 0", "({t} > 0).any()", "({t}.abs() < 2).all().item()")
        return form.format(t=self.tensor(0))

    # Statements --------------------------------------------------------------------------------

    def block(self, length: int, depth: int) -> None:
        for _ in range(length):
            kinds = list(_SIMPLE) + (list(_COMPOUND) * 2 if depth < 2 else [])
            self.draw(st.sampled_from(kinds))(self, depth)

    def nested(self, depth: int) -> None:
        """An indented block; variables bound in it are forgotten behind it."""
        tensors, numbers = list(self.tensors), list(self.numbers)
        self.indent += 1
        self.block(self.draw(st.integers(1, 3)), depth + 1)
        self.indent -= 1
        self.tensors, self.numbers = tensors, numbers

    def assign_tensor(self, depth: int) -> None:
        value, name = self.tensor(), self.new("t")
        self.emit(f"{name} = {value}")
        self.tensors.append(name)

    def reassign_tensor(self, depth: int) -> None:
        value = self.tensor()
        self.emit(f"{self.pick(*self.tensors)} = {value}")

    def assign_number(self, depth: int) -> None:
        value, name = self.number(), self.new("i")
        self.emit(f"{name} = {value}")
        self.numbers.append(name)

    def augment(self, depth: int) -> None:
        form = self.pick(
            "{t} = {t} * 1; {t} += {u}", "{m} += {k}", "x.add_({k})", "y.mul_(0.5)",
            "counter += {k}", "box.seen += {k}", "items[:1] = [{k}]", "table['a'] += {k}",
        )  # fmt: skip
        names = {"t": self.pick(*self.tensors), "u": self.tensor(0)}
        self.emit(form.format(**names, m=self.pick(*self.numbers), k=self.number(0)))

    def mutate(self, depth: int) -> None:
        form = self.pick(
            "items.append({k})", "items.insert(0, {k})", "items.extend([{k}, {k}])",
            "items.reverse()", "items.sort()", "table['z'] = {k}", "table['b'] = {t}",
            "table.update(w={k})", "table.pop('w', None)", "box.value = {t}", "box.extra = {k}",
            "history.append({k})", "table.setdefault('q', []).append({k})", "box.items = items",
            "items += [{k}]", "box.value.add_(1)", "x[{k} % 3] = {k}", "x[0] += y[1]",
        )  # fmt: skip
        self.emit(form.format(k=self.number(), t=self.tensor(1)))

    def say(self, depth: int) -> None:
        form = self.pick(
            "print({k})", "print(f'{{{i}:>3}} {{{i}!r}}')", "print('sum', {t}.sum().item())",
            "print({t}.shape, items)", "speak({k})", "print(len(history), counter)",
        )  # fmt: skip
        self.emit(form.format(k=self.number(), t=self.tensor(0), i=self.number(0)))

    def unpack(self, depth: int) -> None:
        a, b = self.new("t"), self.new("i")
        form = self.pick(
            "{a}, {b} = {t}, {k}", "{b}, {a} = ({k}, {t})", "({a}, *_), {b} = ({t}, 1, 2), {k}",
            "{a}, {b} = [double_all({t}, offset={k})[0], {k}]",
        )  # fmt: skip
        self.emit(form.format(a=a, b=b, t=self.tensor(1), k=self.number()))
        self.tensors.append(a)
        self.numbers.append(b)

    def risky(self, depth: int) -> None:
        form = self.pick(
            "assert {c}, 'assertion {k}'", "items[{k}]", "table['missing'] if {c} else None",
            "{k} // {m}", "box.absent if {c} else None", "if {c}: raise ValueError({k})",
        )  # fmt: skip
        self.emit(form.format(c=self.condition(), k=self.number(0), m=self.number(0)))

    def early_return(self, depth: int) -> None:
        self.emit(f"if {self.condition()}: return ({self.tensor(0)}, {self.number(0)})")

    def branch(self, depth: int) -> None:
        self.emit(f"if {self.condition()}:")
        self.nested(depth)
        if self.draw(st.booleans()):
            self.emit("else:")
            self.nested(depth)

    def data_branch(self, depth: int) -> None:
        self.emit(f"if {self.data_condition()}:")
        self.nested(depth)

    def loop(self, depth: int) -> None:
        name = self.new("i")
        header = self.pick(
            f"for {name} in range({self.number(0)} % 4):", f"for {name} in [3, 1, 2]:",
            f"for {name}, _ in enumerate(x):", f"for {name} in list(items)[:3]:",
            f"for {name} in positives([{self.number(0)}, 0, 2]):",
            f"for {name}, _ in zip(range(3), table):",
        )  # fmt: skip
        self.emit(header)
        self.numbers.append(name)
        self.nested(depth)
        self.numbers.remove(name)
        if self.draw(st.booleans()):
            self.emit(f"{INDENT}if {self.condition()}: {self.pick('break', 'continue')}")

    def attempt(self, depth: int) -> None:
        self.emit("try:")
        self.nested(depth)
        if self.draw(st.booleans()):
            self.emit(f"{INDENT}{self.pick('raise ValueError(7)', 'items[99]', '1 // 0')}")
        error = self.new("e")
        self.emit(f"except (ValueError, LookupError, ZeroDivisionError) as {error}:")
        self.emit(f"{INDENT}print(type({error}).__name__, {error})")
        self.nested(depth)
        if self.draw(st.booleans()):
            self.emit("finally:")
            self.nested(depth)

    def no_grad(self, depth: int) -> None:
        self.emit("with torch.no_grad():")
        self.nested(depth)

    def function(self, depth: int) -> None:
        name, state = self.new("g"), self.new("s")
        self.emit(f"{state} = {self.number(0)}")
        self.emit(f"def {name}(p, q={self.number(0)}, *rest, k=1):")
        self.emit(f"{INDENT}nonlocal {state}")
        self.emit(f"{INDENT}{state} += q")
        if self.draw(st.booleans()):
            self.emit(f"{INDENT}print('in {name}', q)")
        self.emit(f"{INDENT}return p * q + {state} + len(rest) * k")
        result = self.new("t")
        self.emit(f"{result} = {name}({self.tensor(0)}, {self.number(0)}, 5, k={self.number(0)})")
        self.tensors.append(result)
        self.numbers.append(state)


_Statement = Callable[[_Writer, int], None]
_SIMPLE: tuple[_Statement, ...] = (
    _Writer.assign_tensor,
    _Writer.assign_tensor,
    _Writer.reassign_tensor,
    _Writer.assign_number,
    _Writer.augment,
    _Writer.mutate,
    _Writer.mutate,
    _Writer.say,
    _Writer.unpack,
    _Writer.risky,
    _Writer.early_return,
)
_COMPOUND: tuple[_Statement, ...] = (
    _Writer.branch,
    _Writer.data_branch,
    _Writer.loop,
    _Writer.attempt,
    _Writer.no_grad,
    _Writer.function,
)
