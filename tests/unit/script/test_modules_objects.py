"""Objects of users' classes in scripts: attributes, methods, containers, aliasing, errors."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.modules.object_type import script_class
from minitorch2.script.runtime.executor import optimized_execution
from minitorch2.script.syntax.errors import ScriptError


@jit.script
class Pair:
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n
        self.log: list[int] = []

    def scale(self, by: float) -> Tensor:
        self.n += 1
        self.log.append(self.n)
        return self.x * by + self.n

    def added(self, other: Pair) -> Pair:
        return Pair(self.x + other.x, self.n + other.n)

    @property
    def twice(self) -> int:
        return self.n * 2

    @staticmethod
    def half(n: int) -> int:
        return n // 2


class Plain:
    """A class that no decorator has scripted."""

    def __init__(self, k: int):
        self.k = k

    def following(self) -> int:
        return self.k + 1


@dataclass
class Settings:
    size: int
    factor: float = 2.0


def makes_objects(x: Tensor, k: int) -> tuple[Tensor, Pair]:
    first = Pair(x, k)
    second = first.added(Pair(x, 2))
    total = second.scale(2.0)
    for _ in range(3):
        first = first.added(second)
        total = total + first.scale(1.0) + first.twice + Pair.half(k)
    for each in [first, second]:
        each.n = each.n + 5
    return total + first.n + len(second.log), second


def writes_argument(p: Pair, flag: bool) -> Pair:
    if flag:
        p = p.added(p)
    before = p.x
    p.x = p.x + 1
    p.x.mul_(2)
    return Pair(before + p.x, p.n)


def plain_classes(k: int) -> float:
    settings = Settings(Plain(k).following())
    settings.size += 1
    return settings.size * settings.factor


@pytest.mark.parametrize("optimized", [True, False])
def test_objects_are_made_changed_and_returned(optimized: bool) -> None:
    scripted, x = jit.script(makes_objects), torch.ones(3)
    with optimized_execution(optimized):
        for k in (3, 4, 5):
            (total, pair), (wanted, other) = scripted(x, k), makes_objects(x, k)
            assert torch.equal(total, wanted)
            assert isinstance(pair, Pair)
            assert (pair.n, pair.log) == (other.n, other.log)


@pytest.mark.parametrize("flag", [True, False])
def test_writes_to_an_argument_are_seen_by_the_caller(flag: bool) -> None:
    scripted = jit.script(writes_argument)
    for _ in range(4):
        ours, theirs = Pair(torch.ones(2), 1), Pair(torch.ones(2), 1)
        result, wanted = scripted(ours, flag), writes_argument(theirs, flag)
        assert torch.equal(result.x, wanted.x)
        assert torch.equal(ours.x, theirs.x)


def test_plain_classes_and_dataclasses_are_compiled_where_they_are_called() -> None:
    assert jit.script(plain_classes)(3) == plain_classes(3) == 10.0


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(torch.ones(2), 1)

    def forward(self, x: Tensor, replace: bool) -> Tensor:
        if replace:
            self.pair = Pair(x, 10)
        return self.pair.scale(2.0) + self.pair.n


def test_a_module_holds_an_object() -> None:
    ours, theirs, x = jit.script(Holder()), Holder(), torch.zeros(2)
    for replace in (False, True, False, False):
        assert torch.equal(ours(x, replace), theirs(x, replace))


def test_an_argument_of_another_class_is_refused() -> None:
    with pytest.raises(TypeError, match="Pair"):
        jit.script(writes_argument)(Plain(2), True)


def writes_one(a: Pair, x: Tensor) -> Tensor:
    made = Pair(x, 1)
    other = Pair(x.clone(), 2)
    made.x.add_(1)
    return made.x + other.x + a.x


def test_an_object_holds_what_its_attributes_are_set_to() -> None:
    graph = jit.script(writes_one).inlined_graph
    aliasing, (a, x) = AliasDb(graph), graph.inputs
    made, other = (n.output for n in graph.nodes() if n.kind == "prim::CreateObject")
    assert aliasing.may_contain_alias(made, x)
    assert not aliasing.may_contain_alias(other, x)
    assert not aliasing.may_contain_alias(made, other)
    assert aliasing.may_contain_alias(a, x)


def unknown_attribute(p: Pair) -> int:
    return p.missing


def late_attribute(p: Pair) -> int:
    p.other = 3
    return p.n


class Keeper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(torch.arange(2.0), 1)
        self.pairs: list[Pair] = [self.pair, Pair(torch.ones(2), 7)]

    def forward(self, x: Tensor) -> Tensor:
        made = Pair(x, 2).added(self.pair)
        self.pairs[1].n += 1
        return self.pair.scale(2.0) + made.scale(1.0) + self.pairs[0].n + self.pairs[1].n


def saved(save: object, module: object) -> io.BytesIO:
    file = io.BytesIO()
    save(module, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("read", [jit.load, torch.jit.load])
def test_files_hold_objects_for_both_readers(read: object) -> None:
    loaded, eager, x = read(saved(jit.save, jit.script(Keeper()))), Keeper(), torch.ones(2)
    for _ in range(3):
        assert torch.equal(loaded(x), eager(x))


def test_objects_of_a_file_of_torch_are_read() -> None:
    torch.jit.script(Peer)
    loaded, eager = jit.load(saved(torch.jit.save, torch.jit.script(PeerHolder()))), PeerHolder()
    for _ in range(3):
        assert torch.equal(loaded(torch.ones(2)), eager(torch.ones(2)))
    assert torch.equal(loaded.peer.scale(2.0), eager.peer.scale(2.0))


class Peer:
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n

    def scale(self, by: float) -> Tensor:
        self.n += 1
        return self.x * by + self.n


class PeerHolder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(torch.ones(2), 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.peer.scale(2.0) + Peer(x, 3).scale(1.0)


class Child(Plain):
    pass


class Bad:
    def __init__(self, n: int):
        self.n = n + not_there  # noqa: F821


def makes_bad() -> int:
    return Bad(2).n


@pytest.mark.parametrize(
    ("function", "cause", "line"),
    [
        (unknown_attribute, "no attribute missing", "p.missing"),
        (late_attribute, "no attribute other", "p.other"),
        (makes_bad, "not_there is not defined", "self.n = n + not_there"),
    ],
)
def test_errors_of_objects_name_the_line(function: object, cause: str, line: str) -> None:
    with pytest.raises(ScriptError, match=cause) as caught:
        jit.script(function)
    assert line in str(caught.value)


def test_a_class_that_inherits_is_refused() -> None:
    with pytest.raises(ScriptError, match="inherits from Plain"):
        script_class(Child)


class Scaled:
    BY = 2

    def __init__(self, k: int):
        self.k = k

    def result(self) -> int:
        return self.k * self.BY


def uses_class_constants(k: int) -> int:
    made = Scaled(k)
    return made.result() + Scaled.BY + made.BY


def test_objects_follow_the_constants_of_their_class(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = jit.script(uses_class_constants)
    assert scripted(5) == uses_class_constants(5)
    monkeypatch.setattr(Scaled, "BY", 7)
    assert scripted(5) == uses_class_constants(5) == 49


def takes_either(x: Tensor | Plain, scale: float) -> Tensor:
    if isinstance(x, Plain):
        x = Plain(3)
    else:
        x = x * scale
    assert isinstance(x, Tensor)
    return x


def test_classes_that_nobody_scripted_do_not_count_in_unions() -> None:
    """torch_geometric annotates edges as tensors or objects: no script gets one of these."""
    scripted = jit.script(takes_either)
    assert str(scripted.graph.inputs[0].type) == "Tensor"
    assert torch.equal(scripted(torch.ones(2), 2.0), takes_either(torch.ones(2), 2.0))
