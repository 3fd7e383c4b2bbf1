"""Small functions that a bug makes wrong as a whole: there is no captured graph to cut.

Scripts, lazy steps, caches and the settings of PyTorch are searched by statements: the search cuts
the function itself.
"""

import contextlib
import gc
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.autograd import forward_ad

import minitorch2
from minitorch2 import config
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.explorer.bisection.trials import Earlier
from tests.unit.bytecode.torch_values import test_triton_kernels as kernels

ROW = torch.tensor([1.0, 2.0, 3.0])
X = torch.arange(12.0).reshape(3, 4) - 5


@dataclass(frozen=True)
class Single:
    """A function that is wrong with a bug.

    Attributes:
        function: it has at most some ten statements.
        inputs: its arguments.
        floor: how the blame begins.
        frontend: what runs it.
        earlier: what came in front of the call.
        world: holds while the bug is searched.
        backend: the backend that has the bug.
        options: of the compilation.
    """

    function: Callable[..., Any]
    inputs: Sequence[Any]
    floor: str
    frontend: str = "compile"
    earlier: Sequence[Earlier] = ()
    world: Callable[[], AbstractContextManager[Any]] = nullcontext
    backend: Any = "numba"
    options: dict[str, Any] = field(default_factory=lambda: {"cache": False})


SINGLE: dict[str, Single] = {}
"""By the bug."""


def single(bug: str, *inputs: Any, **how: Any) -> Callable[..., Any]:
    """List a function as the needle of a bug; a decorator."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        SINGLE[bug] = Single(function, inputs, **how)
        return function

    return add


# Scripts

SCRIPT: dict[str, Any] = {"floor": "script", "frontend": "script"}
HELD = torch.ones(3)
BASE = HELD.view(3)


@single("a tensor that the graph holds is memory of one run", ROW, floor="script", frontend="trace")
def held(x: Tensor) -> Tensor:
    HELD.fill_(1)
    a = BASE * 2
    HELD.add_(x)
    b = BASE * 2
    return a + b


@single("an expression behind a write counts as computed before it", ROW, **SCRIPT)
def again(x: Tensor) -> Tensor:
    y = x * 2
    a = y + 1
    y.mul_(3)
    b = y + 1
    return a - b * 2


@single("a line that ends two blocks ends one", ROW, 3, floor="script", frontend="text")
def two_blocks(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i > 1:
            x = x + 1
    x = x * 2  # behind both blocks
    return x  # noqa: RET504 - it is the line that follows


@single("`not` takes all that follows it", False, False, floor="script", frontend="text")
def not_and(a: bool, b: bool) -> bool:
    return not a and b


@single("a loop over a range begins with 0 and takes each number", ROW, 5, **SCRIPT)
def ranged(x: Tensor, n: int) -> Tensor:
    for i in range(2, n):
        x = x + i
    return x


@single("what follows a branch that leaves runs in that branch", ROW, 1, **SCRIPT)
def leaves(x: Tensor, n: int) -> Tensor:
    if n > 2:
        x = x * 2
    else:
        return x + 5
    x = x + 1
    return x  # noqa: RET504 - it is the line that follows


@single("a loop does not carry the names that only its inner blocks set", ROW, 3, **SCRIPT)
def inner(x: Tensor, n: int) -> Tensor:
    y = x
    for i in range(n):
        if i > 0:
            y = y + 1
    return y * 2


@single("what a loop carries counts as unchanged", ROW, 3, True, **SCRIPT)
def carried(x: Tensor, n: int, flag: bool) -> Tensor:
    for _ in range(n):
        if flag:
            x = x + 1
        flag = not flag
    return x


@single(
    "a bailout in a loop runs iterations that were done before it again",
    ROW, 4, earlier=[[ROW, 1], [ROW, 1], [ROW, 1]], **SCRIPT,
)  # fmt: skip
def bails_out(x: Tensor, n: int) -> Tensor:
    y = x
    for _ in range(n):
        y = torch.cat([y.sin() * 2, y.cos()])
    return y.sum()


@single("a variable is written to before its last reader has read it", 1, 2, 5, **SCRIPT)
def reads_old(a: int, b: int, n: int) -> int:
    c = 0
    for i in range(n):
        old = a
        a = a + i
        if i % 2 == 0:
            c = c + old
        b = old + a
    return a * 100 + b * 10 + c


@single("a region swallows what is printed between its operators", ROW, **SCRIPT)
def prints_between(x: Tensor) -> Tensor:
    y = x.neg()
    print(y)
    x.neg_()
    return x


@single(
    "a node that a later one depends on is moved out of a region behind it",
    X.clone(), 1, **SCRIPT,
)  # fmt: skip
def writes_to_element(x: Tensor, n: int) -> int:
    parts = [x]
    parts[0][1].neg_()
    return n


@single("a write is moved across a read of the same memory", X, **SCRIPT)
def takes_other_memory(x: Tensor) -> Tensor:
    y = x * 2
    y.set_(x)
    return (y.cos() * 3).relu()


# Lazy steps

LAZY: dict[str, Any] = {"floor": "lazy", "frontend": "lazy"}


def adds_to_view(x: Tensor) -> Tensor:
    x.view(-1).add_(1)
    return x


SINGLE["a step that only writes does not run"] = Single(adds_to_view, [X], **LAZY)
SINGLE["a look at memory does not wait for the reads and writes of the step"] = Single(
    adds_to_view, [X], **LAZY
)
SINGLE["a step does not know that it writes"] = Single(adds_to_view, [X], **LAZY)
SINGLE["a program runs steps of any numbers"] = Single(
    adds_to_view, [torch.ones(2, 5)], earlier=[[X]] * 4, **LAZY
)


@single(
    "inputs that share memory are inputs apart", X, ROW.new_ones(4), earlier=[[X, X[0]]] * 4, **LAZY
)
def doubles_first(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return y + 1


@single("a step does not know that it is in a region", X, **LAZY)
def copies_turned(x: Tensor) -> Tensor:
    x.view(-1).copy_(x.T.ravel())
    return x


@single("a view shows the memory that its tensor was given later", X, **LAZY)
def given_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    view = x.view(-1)
    x.data = x * 3
    return x + 1, view + 1


# The cache


def two_sines(x: Tensor) -> Tensor:
    return x.sin() * 2


def two_cosines(x: Tensor) -> Tensor:
    return x.cos() * 2


def dropped(x: Tensor) -> Tensor:
    return torch.nn.functional.dropout(x, 0.5) * 2


def fill_cache() -> None:
    minitorch2.compile(two_cosines, backend="numba")(X)


def fill_cache_with_own_numbers() -> None:
    with config.patch(fallback_random=False):
        minitorch2.compile(dropped, backend="numba")(X)


@contextlib.contextmanager
def new_cache() -> Iterator[None]:
    minitorch2.reset()
    lookup._PROGRAMS.clear()  # those of this process, which a bug may have put there
    with (
        tempfile.TemporaryDirectory() as folder,
        config.patch(cache_dir=folder, verify=False),
        mock.patch.object(bypass, "EXTENSIONS", list[str]()),  # other tests add lowerings
    ):
        yield


CACHED: dict[str, Any] = {
    "floor": "graph cache",
    "world": new_cache,
    "options": {"cache": True, "verify": False},
}
SINGLE["a cached graph is served to another graph with inputs of the same kind"] = Single(
    two_sines, [X], earlier=[fill_cache], **CACHED
)
SINGLE["what is cached under other options is taken"] = Single(
    dropped, [X], earlier=[fill_cache_with_own_numbers], **CACHED
)


@single(
    "an option that compile is given is ignored", X, floor="autograd",
    world=lambda: config.patch(fallback_random=False),
    options={"cache": False, "fallback_random": True},
)  # fmt: skip
def draws_eagers_numbers(x: Tensor) -> Tensor:
    return dropped(x)


# Settings, operators and kernels of the user's

CAPTURE = {"floor": "capture"}
SEEN: list[int] = []


@contextlib.contextmanager
def warnings_counted() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_, **__: SEEN.append(1)
        yield


@single("warnings are not issued", X, world=warnings_counted, **CAPTURE)
def warns(x: Tensor) -> Tensor:
    SEEN.clear()
    warnings.warn("odd", stacklevel=1)
    y = x * 2
    print(end="")
    return y * len(SEEN)


@contextlib.contextmanager
def warnings_are_errors() -> Iterator[None]:
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            yield
        finally:
            torch.set_warn_always(False)


@single(
    "a dead tensor is the memory of a later result, whatever its layout",
    torch.linspace(-1, 1, 64).view(8, 8), world=warnings_are_errors, floor="codegen",
)  # fmt: skip
def changes_layouts(x: Tensor) -> Tensor:
    a = x @ x.t()
    b = a.relu() @ a
    c = b[:3] @ b
    d = c @ c.t()
    return d.sin() @ c


def sine(x: Tensor) -> Tensor:
    return x.sin() * 2


@single("a graph that is given dual tensors loses their tangents", X, **CAPTURE)
def tangent(x: Tensor) -> Tensor:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        print(end="")
        y = sine(dual)
        print(end="")
        return forward_ad.unpack_dual(y).tangent * 1


def odd(x: Tensor) -> Tensor:
    return x * 2 + 1


ODD_FILE = type(odd)(odd.__code__.replace(co_filename="<a\udc80b>"), globals(), "odd")
SINGLE["a file's name that no file can hold stands in generated text"] = Single(
    ODD_FILE, [X], floor="unknown: the graph fails only"
)


@single(
    "a kernel of the user's that writes is taken for one that reads",
    X, floor="unknown: the graph fails only",
)  # fmt: skip
def launches(x: Tensor) -> Tensor:
    y, n = x * 2, x.numel()
    kernels.scale_kernel[(1,)](y, n, 3.0, BLOCK=16)
    return y + 1


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@single(
    "new memory is 0 where deterministic algorithms fill it",
    X, world=deterministic, floor="loopir",
)  # fmt: skip
def new_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty(3, 4) * x, x + 1


def view_of(x: Tensor) -> Tensor:
    return (x * 3)[1:]


@minitorch2.disable
def write(y: Tensor) -> None:
    y.mul_(2)


@single(
    "a result that is a view of memory of the graph may not be written to",
    X.clone().requires_grad_(), **CAPTURE,
)  # fmt: skip
def writes_result(x: Tensor) -> Tensor:
    print(end="")
    y = view_of(x)
    print(end="")
    write(y)
    return y * 1


@single(
    "a maximum's padding is 0 instead of the smallest number",
    -torch.ones(3, 33) * 2, backend="triton", floor="codegen",
)  # fmt: skip
def largest(x: Tensor) -> Tensor:
    return (x * 2).amax(1)


ENDS = torch.tensor([0, 1, 3])


def jagged_and_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    jagged = torch.nested.nested_tensor_from_jagged(x, ENDS) * 2
    return jagged, jagged.values()


@single(
    "what a jagged tensor is made of has no gradient beside the tensor",
    X.clone().requires_grad_(), floor="autograd",
)  # fmt: skip
def sums_twice(x: Tensor) -> Tensor:
    print(end="")
    jagged, rows = jagged_and_rows(x)
    print(end="")
    return jagged.values().sin() + rows


KINDS: list[Any] = []


@minitorch2.disable
def new_class() -> None:
    kind = type("Kind", (), {"factor": lambda self, n: n + 1})
    KINDS[:] = [kind, weakref.ref(kind)]


def uses_class(x: Tensor) -> Tensor:
    return x * KINDS[0]().factor(2)


@minitorch2.disable
def if_dead() -> float:
    KINDS[0] = None
    gc.collect()
    return 1.0 if KINDS[1]() is None else 5.0


@single("classes that guards know live as long as the guards", X, **CAPTURE)
def class_dies(x: Tensor) -> Tensor:
    new_class()
    y = uses_class(x)
    return y * if_dead()
