"""Every public method of the built-in types, with right and wrong arguments, against CPython.

A program calls one method with all arguments of `ARGUMENTS`, each time on a new value, between two
operators on tensors. Its results, its exceptions and their texts are CPython's, in one graph.
"""

import collections
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.errors import GraphBreakError

X = torch.ones(2)
VALUES = {
    "str": "'a,b c'",
    "bytes": "b'a,b c'",
    "int": "7",
    "bool": "True",
    "float": "2.5",
    "complex": "(1 + 2j)",
    "list": "[3, 1, 2]",
    "tuple": "(3, 1, 2)",
    "dict": "{'a': 1, 'b': 2}",
    "set": "{1, 2}",
    "frozenset": "frozenset((1, 2))",
    "range": "range(1, 9, 2)",
    "slice": "slice(1, 5, 2)",
    "deque": "deque([1, 2, 3])",
    "OrderedDict": "OrderedDict(a=1, b=2)",
    "Counter": "Counter('aab')",
}
ARGUMENTS = (
    "", "1", "'a'", "b'a'", "'a', 'b'", "b'a', b'b'", "0, 5", "[1, 5]", "{1, 5}", "{'a': 5}",
    "'utf8'", "10, 'x'", "[('c', 3)]", "2.5", "['x', 'y']", "[b'x']", "5, b'.'", "{97: 'z'}",
    "2, 'big'", "b'a', 'big'", "None",
)  # fmt: skip
BREAKS = {"dict": {"fromkeys"}, "OrderedDict": {"fromkeys"}}
"""The methods that are left to Python for some of the arguments."""

OTHER_TEXTS = {
    "str": {"join"},  # names the type, where CPython says that the argument is not iterable
    "bytes": {"join"},
    "bool": {"as_integer_ratio", "bit_count", "bit_length", "conjugate"},  # names of `int`
    "set": {"discard", "remove"},  # CPython looks for a set as if it were frozen
}
"""Methods whose errors for wrong arguments are not CPython's own yet."""

NAMES = {cls.__name__: cls for cls in (collections.deque, collections.OrderedDict)}
NAMES |= {"Counter": collections.Counter, "torch": torch}


def methods(kind: str) -> Iterator[str]:
    cls = type(eval(VALUES[kind], dict(NAMES)))
    for name in dir(cls):
        if callable(getattr(cls, name)) and not name.startswith("_") and name != "elements":
            yield name


def program_of(kind: str, name: str) -> Callable[..., Any]:
    lines = ["def program(x):", "    y, found = x * 2, []"]
    for arguments in ARGUMENTS:
        lines += [
            f"    v = {VALUES[kind]}",
            "    try:",
            f"        found.append((v.{name}({arguments}), v))",
            "    except Exception as error:",
            "        found.append((type(error).__name__, str(error), v))",
        ]
    names = dict(NAMES)
    exec("\n".join([*lines, "    return y + 1, found"]), names)
    made: Callable[..., Any] = names["program"]
    return made


def text(value: object) -> str:
    """Return type and value; the order of a set of strings differs from process to process."""
    is_set = isinstance(value, set | frozenset)
    return f"{type(value).__name__} {sorted(map(repr, value)) if is_set else value!r}"


def shown(results: tuple[torch.Tensor, list[Any]]) -> list[str]:
    y, found = results
    return [str(y), *(" ".join(map(text, parts)) for parts in found)]


def differences(kind: str, name: str) -> Iterator[str]:
    program = program_of(kind, name)
    fast = minitorch2.compile(program, backend="eager", fullgraph=True)
    with stages.collect() as log:
        given, wanted = shown(fast(X)), shown(program(X))
    for arguments, one, other in zip(("", *ARGUMENTS), given, wanted, strict=True):
        if one != other:
            yield f"{name}({arguments}): {one}, not {other}"
    if log.counts["graphs"] != 1:
        yield f"{name}: {log.counts['graphs']} graphs"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", VALUES)
def test_methods_of_built_in_types(kind: str) -> None:
    wrong, broken = list[str](), set[str]()
    for name in methods(kind):
        try:
            found = list(differences(kind, name))
            wrong += [] if name in OTHER_TEXTS.get(kind, ()) else found
        except GraphBreakError:
            broken.add(name)
    assert not wrong
    assert broken == BREAKS.get(kind, set())
