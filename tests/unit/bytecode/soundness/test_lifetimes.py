"""Objects die when eager code drops them: seen by weak references, weak containers, finalizers.

Each program is text: its statements, where ``probe(refs)`` notes which objects are alive. The probe
is captured, or it breaks the graph.
"""

import asyncio
import contextlib
import functools
import gc
import weakref
from types import FunctionType
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages

X = torch.ones(3)
SEEN: list[Any] = []


class Box:
    """An object with attributes."""


class Mourned:
    """Says when it dies."""

    def __del__(self) -> None:
        SEEN.append("died")


OUTSIDE = Box()


def probe(*refs: Any) -> None:
    SEEN.append([len(r) if hasattr(r, "__len__") else r() is not None for r in refs])


FUNCTIONS = """
def scope(x):
    z = x + 1
    probe(ref(z))
    return ref(z)

def raising(x, refs):
    z = x + 1
    refs.append(ref(z))
    raise ValueError

def closing(x):
    z = x + 1
    def g():
        return z * 2
    return g, ref(z)

def generator(x):
    z = x + 1
    yield ref(z)
    yield 2
"""

PROGRAMS = """
z = x + 1; r = ref(z); del z; probe(r)

z = x + 1; r = ref(z); probe(r); del z; probe(r)

z = x + 1; r = ref(z); z = z * 2; probe(r)

z = x + 1; r = ref(z); probe(r); probe(r)

z = x + 1; r = weakref.ref(z); z = None; probe(r)

s = weakref.WeakSet([x + 1]); probe(s)

z = x + 1; s = weakref.WeakSet([z]); probe(s); del z; probe(s)

b = Box(); d = weakref.WeakKeyDictionary(); d[b] = x + 1; probe(d); del b; probe(d)

z = x + 1; d = weakref.WeakValueDictionary(); d[0] = z; probe(d); z = None; probe(d)

b = Box(); b.v = x + 1; r, q = ref(b), ref(b.v); probe(r, q); del b; probe(r, q)

v = [x + 1, x + 2]; r, q = ref(v[0]), ref(v[1]); probe(r, q); v.pop(0); probe(r, q)
v.clear(); probe(r, q)

v = {'a': x + 1}; r = ref(v['a']); probe(r); v.pop('a'); probe(r)

r = ref(x + 1); probe(r)

r = scope(x); probe(r)

g, r = closing(x); probe(r); z = g; del g; probe(r); y = z()

i = generator(x); r = next(i); probe(r); next(i); probe(r); del i; probe(r)

i = generator(x); r = next(i); probe(r); i.close(); probe(r)

i = generator(x); r = next(i); rest = [*i]; probe(r)

refs = []
try: raising(x, refs)
except ValueError: probe(*refs)
probe(*refs)

refs, kept = [], None
try: raising(x, refs)
except ValueError as error: kept = error
probe(*refs); kept = None; probe(*refs)

refs = []
for i in range(3): z = x + i; refs.append(ref(z)); probe(*refs)
del z; probe(*refs)

refs = [ref(z) for z in [x + 1, x + 2]]; probe(*refs)

r = ref(x); y = x + 1; probe(r)

a, b = x + 1, x + 2; r, q = ref(a), ref(b); a, b = b, a; probe(r, q); del a; probe(r, q)

w = x.clone().requires_grad_(); (w * 2).sum().backward(); r = ref(w.grad); probe(r)
w.grad = None; probe(r)

w = x.clone().requires_grad_(); y = (w * 2).exp(); r = ref(y); z = y.sum(); del y; probe(r)

b = Box(); f = weakref.finalize(b, SEEN.append, 'end'); SEEN.append(1); del b; SEEN.append(2)

b = Box(); r = ref(b, lambda _: SEEN.append('end')); SEEN.append(1); del b; SEEN.append(2)

b = Mourned(); SEEN.append(1); del b; SEEN.append(2)

b = Mourned(); SEEN.append(1); probe(); del b; SEEN.append(2); probe()

t = (x + 1, 3); r = ref(t[0]); probe(r); t = t[1]; probe(r)

y = x + 1; v = y[0]; r = ref(y); del y; probe(r)

OUTSIDE.v = x + 1; r = ref(OUTSIDE.v); probe(r); OUTSIDE.v = None; probe(r)

if (z := x + 1) is not None: r = ref(z)
probe(r); z = 0; probe(r)

match {'k': x + 1}:
    case {'k': v}: r = ref(v)
probe(r); del v; probe(r)

z = x + 1; r = ref(z); f = functools.partial(torch.add, z); del z; probe(r); y = f(1); del f
probe(r)

refs = []
try: raising(closing(x)[0](), refs)
except ValueError as error: probe(*refs)
probe(*refs)

m = map(lambda t: t + 1, [z := x + 1]); r = ref(z); del z; probe(r); y = next(m); probe(r); del m
probe(r)

v = [x + 1, x + 2]; r = ref(v[0]); v.sort(key=lambda t: 0); v.reverse(); v.pop(); probe(r)

m = torch.nn.Linear(3, 3); r, q = ref(m), ref(m.weight); y = m(x); del m; probe(r, q)
y = None; probe(r, q)

w = x.clone().requires_grad_(); refs = []; w.register_hook(lambda g: refs.append(ref(g)))
(w * 2).sum().backward(); probe(*refs); w.grad = None; probe(*refs)

z = x + 1; r = ref(z); m = z.sum; del z; probe(r); y = m(); del m; probe(r)
"""
"""A program a paragraph."""


def program_of(text: str, *, breaks: bool) -> FunctionType:
    names = {"weakref": weakref, "ref": weakref.ref, "functools": functools, "torch": torch}
    names |= {"Box": Box, "Mourned": Mourned, "OUTSIDE": OUTSIDE, "SEEN": SEEN}
    names["probe"] = minitorch2.disable(probe) if breaks else probe
    body = "\n    ".join(text.splitlines())
    exec(FUNCTIONS + f"\ndef program(x):\n    {body}\n    return x * 2", names)
    made = names["program"]
    assert isinstance(made, FunctionType)
    return made


def outcome(call: Any) -> tuple[list[Any], Any]:
    SEEN.clear()
    result = call(X)
    seen = list(SEEN)
    return seen, result.tolist()


@pytest.mark.parametrize("breaks", [False, True], ids=["captured", "broken"])
@pytest.mark.parametrize("text", PROGRAMS.strip().split("\n\n"))
def test_the_same_objects_are_alive_as_in_eager_code(text: str, breaks: bool) -> None:
    program = program_of(text, breaks=breaks)
    fast = minitorch2.compile(program, backend="eager")
    wanted = outcome(program)
    assert outcome(fast) == wanted
    assert outcome(fast) == wanted


def boom(x: Any) -> None:
    raise ValueError(3)


UNSEEN_BOOM = minitorch2.disable(boom)


def raises(x: Any) -> None:
    x = x * 2
    raise KeyError(x)


def catches(x: Any) -> Any:
    x = x + 1
    try:
        UNSEEN_BOOM(x)
    except ValueError:
        x = x * 2
    return x


def suppresses(x: Any) -> Any:
    with contextlib.suppress(ValueError):
        UNSEEN_BOOM(x + 1)
    return x * 2


def breaks(x: Any) -> Any:
    y = x + 1
    print(end="")
    return y * 2


def calls_a_module(x: Any) -> Any:
    print(end="")
    return torch.nn.Linear(x.shape[0], 2)(x)


RELEASED = (raises, catches, suppresses, breaks, calls_a_module)


@pytest.mark.parametrize("program", RELEASED, ids=lambda program: program.__name__)
def test_each_call_releases_its_arguments_without_garbage_collection(program: Any) -> None:
    """Cycles of the compiler, of residual code and of the frame hook held them.

    The sizes of a capture that a break had cut off held them for ever.
    """
    fast = minitorch2.compile(program, backend="eager")

    def is_released(size: int) -> bool:
        x = torch.ones(size)
        released = weakref.ref(x)
        with contextlib.suppress(KeyError):
            fast(x)
        del x
        return released() is None

    gc.collect()
    gc.disable()
    try:
        assert [is_released(size) for size in (3, 3, 4, 4, 5)] == [True] * 5
    finally:
        gc.enable()


async def awaited_with_it(x: Any) -> Any:
    x = x * 2
    await asyncio.sleep(0)
    yield x


async def waits_with_it(x: Any) -> Any:
    x = x * 2
    await WAITING
    return x


def yields_twice(x: Any) -> Any:
    x = x * 2
    yield x
    yield x + 1


class Waiting:
    """Something that is awaited for ever."""

    def __await__(self) -> Any:
        yield 1


WAITING = Waiting()


@pytest.mark.parametrize("function", [yields_twice, waits_with_it, awaited_with_it])
def test_a_suspended_frame_holds_no_argument_that_it_has_dropped(function: Any) -> None:
    """The frame that binds the arguments of a generator or coroutine held them to its end."""
    for call in (function, *[minitorch2.compile(function, backend="eager")] * 2):
        x = torch.ones(3)
        released, waiting = weakref.ref(x), call(x)
        step = waiting.__anext__() if hasattr(waiting, "__anext__") else waiting
        step.send(None)
        del x
        assert released() is None
        step.close()


def test_frames_without_weak_references_are_captured_across_breaks() -> None:
    def program(x: Any) -> Any:
        y = x + 1
        print(end="")
        return y * 2

    with stages.collect() as log:
        assert torch.equal(minitorch2.compile(program, backend="eager")(X), program(X))
    assert (log.counts["graphs"], log.counts["frames_as_is"]) == (2, 0)


@pytest.mark.parametrize("drop", ["h.v = None", "del h.v", "h.w.pop()", "h.n = 3"])
def test_captured_code_lets_an_object_from_outside_die(drop: str) -> None:
    """The object counted as alive, since it came from outside."""
    body = f"r = ref(h.w[0] if 'w' in {drop!r} else h.v); {drop}; return r() is None, x * 2"
    names: dict[str, Any] = {"ref": weakref.ref}
    exec(f"def program(h, x):\n    {body}", names)
    program = names["program"]
    fast = minitorch2.compile(program, backend="eager")
    for function in (program, fast, fast):
        box = Box()
        box.v, box.w = Box(), [Box()]  # type: ignore[attr-defined]
        assert function(box, X)[0] == (drop != "h.n = 3")


def test_an_object_has_one_weak_reference_without_a_callback() -> None:
    """Two references to one object were two objects."""

    def program(x: Any) -> Any:
        z, box = x + 1, Box()
        refs = [weakref.ref(each) for each in (z, box, OUTSIDE, z, box, OUTSIDE)]
        same = [one is other for one in refs for other in refs]
        return z, box, refs, same

    fast = minitorch2.compile(program, backend="eager", fullgraph=True)
    z, box, refs, same = fast(X)
    assert same == program(X)[3]
    assert refs == [weakref.ref(each) for each in (z, box, OUTSIDE)] * 2
    assert all(one is other for one, other in zip(refs[:3], refs[3:], strict=True))


def test_a_weak_reference_to_an_object_that_is_held_is_captured() -> None:
    def program(x: Any) -> Any:
        z = x + 1
        r = weakref.ref(z)
        return r() * 2, r() is z

    fast = minitorch2.compile(program, backend="eager", fullgraph=True)
    assert str(fast(X)) == str(program(X))
