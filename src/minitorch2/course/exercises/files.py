"""Exercises of the chapter on files."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.course.exercise import exercise

PAGE = "script/files"


class Tied(torch.nn.Module):
    """Two layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3, bias=False)
        self.second = torch.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return what both layers make of it."""
        return self.second(self.first(x))  # type: ignore[no-any-return]


def storages_in_the_file() -> int:
    """Return how many blocks of memory the archive of `Tied` holds."""
    file = io.BytesIO()
    jit.save(jit.script(Tied()), file)
    names = zipfile.ZipFile(file).namelist()
    return sum("/data/" in name for name in names)


@exercise(
    PAGE,
    "look",
    question="""
        The two layers of `Tied` share a weight. How many blocks of memory (`data/0` and so on)
        does its archive hold? Set `blocks`.
    """,
    stub="""
        from minitorch2.course.exercises.files import Tied

        blocks = ...
    """,
    hints=("Save it to `io.BytesIO()`; `zipfile.ZipFile(file).namelist()` lists the entries.",),
    solution="""
        from minitorch2.course.exercises.files import storages_in_the_file

        blocks = storages_in_the_file()
    """,
)
def count_blocks(blocks: int) -> None:
    """Count the entries."""
    assert blocks == storages_in_the_file(), f"{blocks} is not the number: look into the file"


class Harmless:
    """An object whose pickle calls a function when it is loaded."""

    called: list[str] = []  # noqa: RUF012  shared on purpose

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Return the call that loading makes."""
        return Harmless.called.append, ("the file has run me",)


@exercise(
    PAGE,
    "change",
    question="""
        `load(data)` reads a pickle, and runs whatever it names. Change it so that it reads
        numbers, texts, lists and dicts, and refuses every name with a
        `pickle.UnpicklingError` before anything is called.
    """,
    stub="""
        import pickle


        def load(data):
            return pickle.loads(data)
    """,
    hints=(
        "`pickle.Unpickler` asks its method `find_class(module, name)` for each name.",
        "Make a subclass that raises there; `io.BytesIO(data)` is its file.",
    ),
    solution="""
        import io
        import pickle


        class Careful(pickle.Unpickler):
            def find_class(self, module, name):
                raise pickle.UnpicklingError(f"{module}.{name} is not admitted")


        def load(data):
            return Careful(io.BytesIO(data)).load()
    """,
)
def refuse_names(load: Callable[[bytes], Any]) -> None:
    """Load plain data, then a pickle that calls a function."""
    plain = {"a": [1, 2.5], "b": "text"}
    assert load(pickle.dumps(plain)) == plain, "plain data must be read"
    Harmless.called.clear()
    try:
        load(pickle.dumps(Harmless()))
    except pickle.UnpicklingError:
        assert not Harmless.called, "it was called before it was refused"
        return
    raise AssertionError("a pickle that calls a function was loaded")


@exercise(
    PAGE,
    "build",
    question="""
        Write `pack(tensors)` and `unpack(data)`: float32 tensors by name become the bytes of a
        zip file, and come back. The file has an entry `index.json` with names and sizes, and
        no pickle. Tensors that are the same object are stored once.
    """,
    stub="""
        import pickle


        def pack(tensors):
            return pickle.dumps(tensors)


        def unpack(data):
            return pickle.loads(data)
    """,
    hints=(
        "`tensor.contiguous().numpy().tobytes()` and `torch.frombuffer(bytearray(bytes), "
        "dtype=torch.float32)` go there and back.",
        "Name an entry by its number; a dict from `id(tensor)` to the number finds doublets.",
    ),
    solution="""
        import io
        import json
        import zipfile

        import torch


        def pack(tensors):
            file, entries, index = io.BytesIO(), {}, {}
            with zipfile.ZipFile(file, "w") as target:
                for name, tensor in tensors.items():
                    if id(tensor) not in entries:
                        entries[id(tensor)] = str(len(entries))
                        memory = tensor.contiguous().numpy().tobytes()
                        target.writestr(entries[id(tensor)], memory)
                    index[name] = entries[id(tensor)], list(tensor.shape)
                target.writestr("index.json", json.dumps(index))
            return file.getvalue()


        def unpack(data):
            source, tensors = zipfile.ZipFile(io.BytesIO(data)), {}
            for name, (entry, size) in json.loads(source.read("index.json")).items():
                memory = bytearray(source.read(entry))
                tensors[name] = torch.frombuffer(memory, dtype=torch.float32).reshape(size)
            return tensors
    """,
)
def pack_tensors(
    pack: Callable[[Mapping[str, Tensor]], bytes],
    unpack: Callable[[bytes], Mapping[str, Tensor]],
) -> None:
    """Send tensors there and back, and look into the file."""
    shared = torch.randn(3, 2)
    tensors = {"w": shared, "tied": shared, "turned": torch.randn(2, 3).T, "one": torch.ones(1)}
    data = pack(tensors)
    assert zipfile.is_zipfile(io.BytesIO(data)), "the bytes are no zip file"
    file = zipfile.ZipFile(io.BytesIO(data))
    assert set(json.loads(file.read("index.json"))) == set(tensors), "names stand in the index"
    assert len(file.namelist()) == 4, f"three blocks and an index, not {file.namelist()}"
    for name, tensor in unpack(data).items():
        assert torch.equal(tensor, tensors[name]), f"{name} has come back changed"


@exercise(
    PAGE,
    "build",
    question="""
        Write `inlined(lines, result)`: `lines` are pairs of a name and an expression over
        earlier names, none of which has an effect. Write each value that is read once where it
        is read, in parentheses. Return the lines that are left, and the last expression.
    """,
    stub="""
        def inlined(lines, result):
            return lines, result
    """,
    hints=(
        r"`re.sub(r'\bname\b', replacement, text)` replaces a name.",
        "Count how often each name is read in all expressions and in the result.",
    ),
    solution=r"""
        import re


        def inlined(lines, result):
            rest = list(lines)
            for name, _ in lines:
                place = next(i for i, line in enumerate(rest) if line[0] == name)
                later = [text for _, text in rest[place + 1 :]] + [result]
                word = re.compile(rf"\b{name}\b")
                if sum(len(word.findall(text)) for text in later) == 1:
                    _, value = rest.pop(place)
                    rest = [(n, word.sub(f"({value})", text)) for n, text in rest]
                    result = word.sub(f"({value})", result)
            return rest, result
    """,
)
def write_values_where_they_are_read(
    inlined: Callable[..., tuple[Sequence[tuple[str, str]], str]],
) -> None:
    """Run what is left, and count its lines."""
    lines = [("a", "x + 1"), ("b", "a * 2"), ("c", "b - x"), ("d", "b * c")]
    rest, text = inlined(lines, "d + 1")
    names = [name for name, _ in rest]
    assert names == ["b"], f"only b is read twice; you have lines for {names}"
    values = {"x": 5}
    for name, expression in rest:
        values[name] = eval(expression, {}, values)
    found = eval(text, {}, values)
    assert found == 85, f"for x = 5 the result is 85, not {found}"
