"""Exercises of the chapter on private things of other projects."""

from __future__ import annotations

import dis
import random
import types
from collections.abc import Callable, Sequence

from minitorch2.course.exercise import exercise
from minitorch2.native.table import TABLE

PAGE = "native"


def needed_of(project: str) -> int:
    """Return how many private things of a project the compiler cannot do without."""
    return sum(row.needed for row in TABLE if row.of == project)


@exercise(
    PAGE,
    "look",
    question="""
        Without how many private things of CPython can nothing be compiled, and without how
        many of Triton? Set `python` and `triton`.
    """,
    stub="""
        from minitorch2.native.table import TABLE

        python = ...
        triton = ...
    """,
    hints=("A row of the table has `of` and `needed`.",),
    solution="""
        from minitorch2.course.exercises.native import needed_of

        python, triton = needed_of("python"), needed_of("triton")
    """,
)
def count_needs(python: int, triton: int) -> None:
    """Count the rows."""
    found = needed_of("python"), needed_of("triton")
    assert (python, triton) == found, f"{python} and {triton} are not both right"


@exercise(
    PAGE,
    "change",
    question="""
        `reach(path)` returns what a dotted name such as "os.path.join" stands for. Change it
        so that it returns `None` where a part of the path is missing in this version.
    """,
    stub="""
        import importlib


        def reach(path):
            first, *rest = path.split(".")
            found = importlib.import_module(first)
            for name in rest:
                found = getattr(found, name)
            return found
    """,
    hints=("`getattr` with a default does not raise.", "A module that is missing does."),
    solution="""
        import importlib


        def reach(path):
            first, *rest = path.split(".")
            try:
                found = importlib.import_module(first)
                for name in rest:
                    found = getattr(found, name)
            except (ImportError, AttributeError):
                return None
            return found
    """,
)
def probe_names(reach: Callable[[str], object]) -> None:
    """Ask for names that are there, and for names that are not."""
    assert reach("os.path.join") is not None, "os.path.join is there"
    for path in ("os.path.nothing", "no_such_module.name", "os.nothing.more"):
        assert reach(path) is None, f"{path} is missing, so the answer is None"


@exercise(
    PAGE,
    "build",
    question="""
        Write `find(dump)`: `dump(number)` gives the bytes of an unknown record in which the
        number stands somewhere as 8 bytes, least byte first. Return the offset. If it is not
        certain, raise a `LookupError`: a wrong offset would crash the process.
    """,
    stub="""
        def find(dump):
            return dump(1).index(1)
    """,
    hints=(
        "`number.to_bytes(8, 'little')` are the bytes to look for, `bytes.find` finds them.",
        "Look for two rare numbers. Refuse if one is missing or stands twice, or if the offsets "
        "differ.",
    ),
    solution="""
        def find(dump):
            offsets = set()
            for number in (0x1122334455667788, 0x0102030405060709):
                record, wanted = dump(number), number.to_bytes(8, "little")
                if record.count(wanted) != 1:
                    raise LookupError("the number is not there once")
                offsets.add(record.find(wanted))
            if len(offsets) > 1:
                raise LookupError(f"it moves: {offsets}")
            return offsets.pop()
    """,
)
def find_a_field(find: Callable[[Callable[[int], bytes]], int]) -> None:
    """Hide a number in random records, twice, not at all, or at places that move."""
    draw = random.Random(0)
    for offset in (0, 8, 24, 56):
        before, behind = draw.randbytes(offset), draw.randbytes(64)

        def dump(number: int, before: bytes = before, behind: bytes = behind) -> bytes:
            return before + number.to_bytes(8, "little") + behind

        found = find(dump)
        assert found == offset, f"the field is at {offset}, not at {found}"
    moving = iter(range(100))
    bad: dict[str, Callable[[int], bytes]] = {
        "is not there": lambda n: bytes(64),
        "stands twice": lambda n: n.to_bytes(8, "little") * 2,
        "moves": lambda n: bytes(next(moving)) + n.to_bytes(8, "little"),
    }
    for case, hidden in bad.items():
        try:
            found = find(hidden)
        except LookupError:
            continue
        raise AssertionError(f"a number that {case} is found at {found}")


def one(x: int) -> int:
    """Return something, whatever is raised."""
    try:
        return 1 // x
    except ZeroDivisionError:
        return 0


def two(x: int) -> int:
    """Return something, from a `try` inside of a `try`."""
    try:
        try:
            return 1 // x
        finally:
            x += 1
    except ZeroDivisionError:
        return x


@exercise(
    PAGE,
    "build",
    question="""
        Write `handlers(table)`, which decodes `code.co_exceptiontable`: a list of (start, end,
        target) in bytes, `end` excluded. The table holds four numbers for each range: start,
        length, target, and one to be ignored; the first three count instructions of two bytes.
        A number is written in groups of six bits, highest first; bit 6 (64) says that another
        group follows. Bit 7 only marks the start of an entry.
    """,
    stub="""
        def handlers(table):
            return []
    """,
    hints=(
        "Read one number: `value = value << 6 | byte & 63` while `byte & 64`.",
        "Read four numbers at a time until the bytes are used up.",
    ),
    solution="""
        def numbers(table):
            value = 0
            for byte in table:
                value = value << 6 | byte & 63
                if not byte & 64:
                    yield value
                    value = 0


        def handlers(table):
            flat = list(numbers(table))
            return [
                (2 * start, 2 * (start + length), 2 * target)
                for start, length, target in zip(flat[::4], flat[1::4], flat[2::4])
            ]
    """,
)
def decode_handlers(handlers: Callable[[bytes], Sequence[tuple[int, int, int]]]) -> None:
    """Compare with the module `dis` on functions with exception handlers."""
    functions: tuple[types.FunctionType, ...] = (one, two, probe_names.check)  # type: ignore[assignment]
    for function in functions:
        entries = dis.Bytecode(function).exception_entries  # type: ignore[attr-defined]
        expected = [(each.start, each.end, each.target) for each in entries]
        found = [tuple(each) for each in handlers(function.__code__.co_exceptiontable)]
        assert found == expected, f"{function.__name__} has {expected}, not {found}"
