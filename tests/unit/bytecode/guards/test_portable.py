"""Guards written as text say the same in another process."""

import json
import math
import subprocess
import sys
import textwrap
import types

import pytest
import torch
import torch.nn.functional as F

from minitorch2.bytecode.guards import (
    AttributeGuard,
    DictKeysMatch,
    DistinctStorages,
    KeyAbsent,
    KeyPresent,
    LengthMatch,
    SetMatch,
    TensorMatch,
    TensorMetadata,
    TypeMatch,
    constant_match,
    global_state_guards,
    id_match,
)
from minitorch2.bytecode.guards.guard_function import compile_guards
from minitorch2.bytecode.guards.portable import NotPortableError, read_guards, write_guards
from minitorch2.bytecode.sources import (
    AttributeSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    ReferenceSource,
    TypeSource,
)

A, B = LocalSource("a"), LocalSource("b")


def function(a, b): ...


GUARDS = [
    TensorMatch(A, TensorMetadata.of(torch.zeros(2, 3))),
    TensorMatch(A, TensorMetadata.of(torch.zeros(2, 3), dynamic_dims=frozenset({0}))),
    id_match(GlobalSource("torch"), torch),
    id_match(AttributeSource(GlobalSource("F"), "relu"), F.relu),
    id_match(GlobalSource("len"), len),
    TypeMatch(B, dict),
    TypeMatch(B, torch.nn.Linear),
    TypeMatch(TypeSource(B), type),
    *(
        constant_match(ItemSource(B, "k"), v)
        for v in (1, True, -0.0, math.nan, 1j, "x", b"y", None)
    ),
    *(constant_match(ItemSource(B, 0), v) for v in (..., (1, (2.5,)), torch.Size([1]), torch.int8)),
    constant_match(B, torch.device("cpu")),
    LengthMatch(B, 3),
    DictKeysMatch(B, ("a", 1, None)),
    SetMatch(B, (1, "a")),
    KeyAbsent(B, "x"),
    KeyPresent(B, "y"),
    AttributeGuard(B, "z", True),
    DistinctStorages((A, B)),
    id_match(ItemSource(ReferenceSource("__globals"), "pi"), math),
    *global_state_guards(),
]


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_a_guard_that_is_read_back_is_the_same(guard):
    references = {"__globals": math.__dict__}
    read = read_guards(write_guards([guard], references))
    assert read.guards == (guard,)
    assert read.guards[0].layer == guard.layer
    texts = [compile_guards([each], function, references).source for each in (guard, *read.guards)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "value",
    [lambda: None, object(), type("Local", (), {}), types.SimpleNamespace()],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_name_is_refused(value):
    with pytest.raises(NotPortableError):
        write_guards([id_match(A, value)])


def test_another_version_of_pytorch_is_refused():
    text = write_guards(GUARDS[:1])
    other = json.dumps({**json.loads(text), "torch": "1.0"})
    with pytest.raises(NotPortableError, match=r"1\.0"):
        read_guards(other)


def test_guards_are_asked_in_a_new_process(tmp_path):
    scale = torch.nn.Linear(2, 2)
    guards = [
        TensorMatch(A, TensorMetadata.of(torch.zeros(2, 3))),
        TypeMatch(B, type(scale)),
        constant_match(AttributeSource(B, "in_features"), 2),
        id_match(AttributeSource(GlobalSource("torch"), "relu"), torch.relu),
        *global_state_guards(),
    ]
    (tmp_path / "guards.json").write_text(write_guards(guards))
    program = """
        import sys, torch
        from minitorch2.bytecode.guards.guard_function import compile_guards
        from minitorch2.bytecode.guards.portable import read_guards

        def function(a, b): ...

        read = read_guards(open(sys.argv[1]).read())
        check = compile_guards(read.guards, function, read.references).fast_check
        print(check(torch.ones(2, 3), torch.nn.Linear(2, 5)), check(torch.ones(2, 4), 3),
              check(torch.ones(2, 3), torch.nn.Linear(3, 2)))
        with torch.no_grad():
            print(check(torch.ones(2, 3), torch.nn.Linear(2, 5)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "guards.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "False"]
