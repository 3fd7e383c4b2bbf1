"""enum, typing, contextvars, threading, warnings, time, weakref, pytrees, torch's own helpers."""

import contextlib
import contextvars
import enum
import io
import logging
import threading
import time
import types
import typing
import warnings
import weakref

import torch
from torch.utils import _pytree as pytree

from tests.unit.bytecode.language import program


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def lower(self):
        return self.name.lower()

    @classmethod
    def default(cls):
        return cls.GREEN


class Access(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    RW = R | W


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(enum.StrEnum):
    TRAIN = enum.auto()
    EVAL = "evaluation"


@program
def enums(x):
    c = Color.RED
    return (
        x * c.value,
        c.name,
        Color(2).lower,
        Color["RED"] is c,
        list(Color),
        Color.CRIMSON is c,
        c in Color,
        len(Color),
        Color.default().name,
    )


@program
def enum_members(x):
    return (
        x + 1,
        list(Color.__members__),
        {Color.RED: x}[Color.RED],
        repr(Color.RED),
        str(Color.RED),
        Color.RED == 1,
        isinstance(Color.RED, Color),
    )


@program
def flags(x):
    a = Access.R | Access.W
    return (
        x + a.value,
        a is Access.RW,
        Access.R in a,
        bool(a & Access.W),
        ~Access.R,
        [f.name for f in Access.RW],
        Access(0),
    )


@program
def int_enums(x):
    return (
        x + Level.HIGH,
        Level.LOW < Level.HIGH,
        Level(5).name,
        sorted(Level),
        [1, 2][Level.LOW],
        Mode.TRAIN,
        Mode.EVAL.upper(),
        f"{Mode.TRAIN}",
    )


@program
def enum_made_inside(x):
    class Local(enum.Enum):
        A = 1
        B = enum.auto()

    return x + Local.B.value, [m.name for m in Local]


@program
def match_enum(x):
    match Color.GREEN:
        case Color.RED:
            return x
        case Color.GREEN:
            return x + 1


@typing.runtime_checkable
class HasGo(typing.Protocol):
    def go(self): ...


class Goes:
    def go(self):
        return 1


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value


@program
def typing_helpers(x):
    y = typing.cast(int, x)
    return (
        y + 1,
        isinstance(Goes(), HasGo),
        isinstance(3, HasGo),
        Box[int](x).value,
        typing.get_origin(list[int]),
    )


@program
def type_hints(x):
    def f(a: int, b: "str" = "") -> float: ...

    return (
        x + len(f.__annotations__),
        list[int] == list[int],
        (int | None) == (None | int),
        isinstance(3, int | str),
    )


@program
def typed_dict(x):
    class Movie(typing.TypedDict):
        name: str

    return x + 1, Movie(name="a")


VARIABLE = contextvars.ContextVar("variable", default=2)


@program
def context_variable(x):
    return x * VARIABLE.get(), VARIABLE.name


@program
def context_variable_set(x):
    token = VARIABLE.set(5)
    y = x * VARIABLE.get()
    VARIABLE.reset(token)
    return y, VARIABLE.get()


@program
def context_variable_made_inside(x):
    v = contextvars.ContextVar("v")
    try:
        v.get()
    except LookupError:
        v.set(3)
    return x + v.get() + v.get(1)


@program
def context_copied(x):
    def work():
        VARIABLE.set(7)
        return x + VARIABLE.get()

    return contextvars.copy_context().run(work), VARIABLE.get()


LOCK = threading.Lock()
LOCAL = threading.local()


@program
def lock(x):
    with LOCK:
        y = x + 1
    with threading.RLock():
        y = y * 2
    return y, LOCK.locked()


@program
def lock_by_hand(x):
    guard = threading.Lock()
    taken = guard.acquire()
    again = guard.acquire(blocking=False)
    guard.release()
    return x + taken, again, guard.locked()


@program
def thread_local(x):
    LOCAL.value = x
    y = LOCAL.value + 1
    del LOCAL.value
    return y, hasattr(LOCAL, "value")


@program
def thread_local_made_inside(x):
    data = threading.local()
    data.n = 3
    return x + data.n


@program
def warning_caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("quiet")
        y = x + 1
    return y


@program
def warning_recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("loud", UserWarning)
        y = x + 1
    return y, [str(w.message) for w in caught]


@program
def printed(x):
    y = x + 1
    print("shape", y.shape[1])
    return y * 2


@program
def clock(x):
    start = time.time()
    return x + 1, time.time() >= start


@program
def silent_logger(x):
    logging.getLogger("catalogue").debug("x has %s", x.shape)
    return x + 1


@program
def redirected(x):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        y = x + 1
    return y, out.getvalue()


MODULE = torch.nn.Linear(4, 4)


@program
def weak_reference(x):
    r = weakref.ref(MODULE)
    return r()(x), r() is MODULE


@program
def weak_containers(x):
    table = weakref.WeakKeyDictionary()
    table[MODULE] = 3
    return x + table[MODULE], len(table)


@program
def simple_namespace(x):
    n = types.SimpleNamespace(a=x, b=2)
    n.c = n.a * n.b
    return n.c, n.b, vars(n)["b"]


class Node:
    def __init__(self, left, right):
        self.left, self.right = left, right


pytree.register_pytree_node(
    Node, lambda n: ([n.left, n.right], None), lambda parts, _: Node(*parts)
)


@program
def tree_map(x):
    tree = pytree.tree_map(lambda t: t * 2, {"a": [x, (x + 1,)], "b": Node(x, x)})
    return tree["a"], tree["b"].right


@program
def tree_map_only(x):
    return pytree.tree_map_only(torch.Tensor, lambda t: t + 1, {"a": x, "n": 3})


@program
def tree_flatten(x):
    leaves, spec = pytree.tree_flatten({"a": x, "b": [1, Node(x, 2)]})
    return (
        len(leaves),
        pytree.tree_unflatten([2 * leaf for leaf in leaves], spec)["a"],
        spec.num_leaves,
    )


@program
def tree_predicates(x):
    return pytree.tree_all(lambda t: t is not None, [x, 1]), pytree.tree_leaves((x, [x])), x + 1


@program
def compiler_state(x):
    return x + 1, torch.jit.is_scripting(), torch.jit.is_tracing()


@program
def annotated(x):
    empty = torch.jit.annotate(typing.List[int], [])  # noqa: UP006
    empty.append(3)
    return x + empty[0]


@torch.jit.script_if_tracing
def helped(x):
    return x * 2


@program
def script_if_tracing(x):
    return helped(x) + 1


@torch.jit.ignore
def ignored(x):
    return x + 3


@torch.jit.unused
def unused(x):
    return x + 4


@program
def jit_decorators(x):
    return ignored(x) * unused(x)


@program
def lazily_exported(x):
    out = torch.jit.isinstance([1], typing.List[int])  # noqa: UP006
    return x + out


@program
def mapping_proxy(x):
    d = types.MappingProxyType({"a": x})
    return d["a"] + 1, len(d), "a" in d


@program
def operator_on_none(x):
    try:
        None + 1
    except TypeError as error:
        return x + 1, str(error)
