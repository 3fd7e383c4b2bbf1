"""Only the keys that a program looked at are guarded."""

from collections import OrderedDict, defaultdict

import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.capturing import capture
from tests.unit.bytecode.test_dispatch import frames_of

X = torch.ones(3)
SETTINGS = {"scale": 2.0, "mode": "plain"}


def reads_one(x):
    return x * SETTINGS["scale"]


def reads_absent(x):
    return x * SETTINGS.get("missing", 3.0)


def asks(x):
    return x + 1 if "mode" in SETTINGS else x - 1


def test_an_unrelated_key_of_a_global_dict_does_not_recompile(monkeypatch):
    for program in (reads_one, reads_absent, asks):
        compiled = capture(program)
        assert frames_of(compiled, (X,)) == 1
        monkeypatch.setitem(SETTINGS, "unrelated", object)
        assert frames_of(compiled, (X,)) == 0
        monkeypatch.delitem(SETTINGS, "unrelated")


@pytest.mark.parametrize(
    ("program", "key"), [(reads_one, "scale"), (reads_absent, "missing"), (asks, "mode")]
)
def test_a_key_that_was_looked_at_is_guarded(program, key, monkeypatch):
    compiled = capture(program)
    compiled(X)
    if key in SETTINGS:
        monkeypatch.delitem(SETTINGS, key)
    else:
        monkeypatch.setitem(SETTINGS, key, 7.0)
    if program is reads_one:
        with pytest.raises(KeyError):
            compiled(X)
    else:
        assert torch.equal(compiled(X), program(X))


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda d: defaultdict(int, d)])
@pytest.mark.parametrize(
    "look",
    [
        lambda d: len(d),
        lambda d: sum(d.values()),
        lambda d: next(iter(d)) == "a",
        lambda d: 1 if d else 0,
        lambda d: dict(d)["a"],
        lambda d: (lambda **named: len(named))(**d),
        lambda d: d == {"a": 1},
        lambda d: [*d.items()][-1][1],
        lambda d: d.pop("a") + len(d),
    ],
)
def test_whoever_sees_all_keys_relies_on_all(kind, look):
    def program(x, d):
        return x * look(d)

    compiled = capture(program)
    for contents in ({"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}):
        given, wanted = kind(contents), kind(contents)
        assert torch.equal(compiled(X, given), program(X, wanted))
        assert given == wanted and list(given) == list(wanted)


def test_a_default_dict_that_gets_a_key_relies_on_all():
    def program(x, d):
        d["new"] += 1
        return x * len(d)

    compiled = capture(program)
    for contents in ({}, {"a": 1}, {"new": 1}, {}):
        given, wanted = defaultdict(int, contents), defaultdict(int, contents)
        assert torch.equal(compiled(X, given), program(X, wanted))
        assert given == wanted


def test_keyword_arguments_that_are_not_read_do_not_matter():
    def program(x, **named):
        return x * named["scale"]

    compiled = capture(program)
    with stages.collect() as log:
        compiled(X, scale=2)
        compiled(X, scale=2, other=3)
    assert log.counts["frames"] == 1


SETS = [({0.0}, {-0.0}), ({(1,)}, {(True,)}), ({(0.0,)}, {(-0.0,)}), ({1}, {1.0}), ({"a"}, {"b"})]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("sets", SETS, ids=str)
def test_equal_elements_of_sets_that_are_not_alike_are_told_apart(sets, dynamic):
    def f(x, elements):
        return x + 1, [repr(element) for element in elements]

    fast = minitorch2.compile(f, backend="eager", fullgraph=True, dynamic=dynamic)
    x = torch.ones(2)
    with stages.collect() as log:
        for elements in (*sets, *sets):
            assert fast(x, elements)[1] == f(x, elements)[1]
    assert log.counts["graphs"] == 2
