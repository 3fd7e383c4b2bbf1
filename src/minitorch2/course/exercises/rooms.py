"""Exercises of the chapter on the rooms of this project, and PyTorch's."""

from __future__ import annotations

import ast
import importlib
import inspect
import random
from collections.abc import Callable, Mapping, Sequence

from minitorch2.course.exercise import exercise

PAGE = "map"


def imported_rooms(module: str) -> set[str]:
    """Return the rooms of this project from which a module imports."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[1] for name in names if name.startswith("minitorch2.")}


@exercise(
    PAGE,
    "look",
    question="""
        From which rooms does `minitorch2.autograd.min_cut` import? Set `rooms`, a set of names
        such as "graph".
    """,
    stub="""
        import minitorch2.autograd.min_cut

        print(minitorch2.autograd.min_cut.__file__)
        rooms = ...
    """,
    hints=("Read the lines `from minitorch2.ROOM... import` at the top of the file.",),
    solution="""
        from minitorch2.course.exercises.rooms import imported_rooms

        rooms = imported_rooms("minitorch2.autograd.min_cut")
    """,
)
def name_the_rooms(rooms: set[str]) -> None:
    """Read the imports."""
    found = imported_rooms("minitorch2.autograd.min_cut")
    assert set(rooms) == found, f"{rooms} is not right: read the top of the file"


@exercise(
    PAGE,
    "change",
    question="""
        `imports(text)` finds the modules that a Python file imports, by its lines. It misses
        some, and finds some in docstrings. Change it: use the tree. Return a set of names; of
        `from a.b import c` it is "a.b".
    """,
    stub="""
        def imports(text):
            lines = text.splitlines()
            return {line.split()[1] for line in lines if line.startswith(("import", "from"))}
    """,
    hints=("`ast.walk(ast.parse(text))` gives all nodes; look for `Import` and `ImportFrom`.",),
    solution="""
        import ast


        def imports(text):
            found = set()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    found |= {name.name for name in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found.add(node.module)
            return found
    """,
)
def read_imports(imports: Callable[[str], set[str]]) -> None:
    """Try imports in functions, several on a line, and texts that look like one."""
    text = (
        '"""\nimport nothing\n"""\nimport os, sys\nfrom a.b import c\ndef f():\n    import json\n'
    )
    found = set(imports(text))
    expected = {"os", "sys", "a.b", "json"}
    assert found == expected, f"{sorted(expected)} are imported, not {sorted(found)}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `floors(imports)`: a dict from each room to the rooms that it imports. Return a
        dict from each room to its floor: 0 if it imports none, else one above the highest that
        it imports.
    """,
    stub="""
        def floors(imports):
            return dict.fromkeys(imports, 0)
    """,
    hints=("A function that calls itself for the rooms below.",),
    solution="""
        def floors(imports):
            def floor(room):
                return max((floor(below) + 1 for below in imports[room]), default=0)

            return {room: floor(room) for room in imports}
    """,
)
def build_floors(floors: Callable[[Mapping[str, Sequence[str]]], Mapping[str, int]]) -> None:
    """Compare with the definition on random houses."""
    draw = random.Random(0)
    for _ in range(20):
        names = [f"room{n}" for n in range(7)]
        house = {
            name: draw.sample(names[:i], draw.randint(0, min(i, 3))) for i, name in enumerate(names)
        }
        found = floors(house)
        for name, below in house.items():
            expected = max((found[each] + 1 for each in below), default=0)
            assert found[name] == expected, f"{house}: {name} is on floor {expected}"


@exercise(
    PAGE,
    "build",
    question="""
        Write `circle(imports)`: a list of rooms, each of which imports the next, and the last
        one the first; `None` if there is no such circle.
    """,
    stub="""
        def circle(imports):
            return None
    """,
    hints=("Walk down, and keep the way. If you meet a room of the way, the rest of it is one.",),
    solution="""
        def circle(imports):
            def walk(room, way):
                if room in way:
                    return way[way.index(room) :]
                found = (walk(below, [*way, room]) for below in imports[room])
                return next((each for each in found if each), None)

            return next((found for room in imports if (found := walk(room, []))), None)
    """,
)
def find_a_circle(
    circle: Callable[[Mapping[str, Sequence[str]]], Sequence[str] | None],
) -> None:
    """Look for circles in houses with and without one."""
    straight = {"a": ["b", "c"], "b": ["c"], "c": []}
    assert circle(straight) is None, f"{straight} has no circle"
    for house in (
        {"a": ["b"], "b": ["c"], "c": ["b"]},
        {"a": ["a"]},
        {"a": ["b"], "b": [], "c": ["d"], "d": ["e"], "e": ["c"]},
    ):
        found = circle(house)
        assert found, f"{house} has a circle"
        following = [*found[1:], found[0]]
        good = all(after in house[room] for room, after in zip(found, following, strict=True))
        assert good, f"{found} is no circle of {house}"
