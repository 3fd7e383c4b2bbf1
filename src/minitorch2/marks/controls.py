"""Directions from a program to capture: marks on functions, and requests inside captured code.

    mark    ::= Disabled       capture breaks at a call of the function
             |  Disallowed     the same; the function itself is marked, not a wrapper
             |  Forbidden      a call of it is an error while capturing
             |  Allowed        a call of it is one node of the graph
             |  ConstantResult it is called while capturing, and what it gives is a constant
             |  Substituted    another function is captured in its place
             |  Repeated       equal calls of it become calls of one graph

    request ::= is_compiling | graph_break | skip_frame | error_on_graph_break

A mark belongs to one function object, however a program reaches it: by name, as an attribute or a
method, inside a partial, as an argument. The last mark holds, for what is captured from then on.
Capture reads marks in `bytecode.trackers.control_rules`; nothing here knows of capture.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import MethodType
from typing import Any, ParamSpec, TypeVar

from minitorch2.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])


class Mark:
    """The base of marks: a mark says what capture does at calls of one function."""


@dataclass(frozen=True)
class Disabled(Mark):
    """Capture breaks at the function, which runs in Python.

    Attributes:
        reason: the user's own, for reports.
        recursive: so does all that it calls.
    """

    reason: str | None = None
    recursive: bool = True


@dataclass(frozen=True)
class Disallowed(Disabled):
    """Capture breaks at the function, by `disallow_in_graph`; the function itself is marked."""

    recursive: bool = False


@dataclass(frozen=True)
class Forbidden(Mark):
    """Meeting the function while capturing is an error."""


@dataclass(frozen=True)
class Allowed(Mark):
    """A call of the function is one node of the graph; capture does not look inside."""


@dataclass(frozen=True)
class ConstantResult(Mark):
    """The function runs while capturing; its result is a constant of the captured code."""


@dataclass(frozen=True)
class Substituted(Mark):
    """Capture inlines `body` in place of the function.

    Attributes:
        body: a Python function of the same parameters and meaning.
        folds: with constant arguments the original function is called while capturing.
    """

    body: Callable[..., Any]
    folds: bool = False


@dataclass(frozen=True)
class Repeated(Mark):
    """Calls of the function whose graphs are equal become calls of one graph."""


# Marks --------------------------------------------------------------------------------------------

_MARKS: dict[int, tuple[Mark, object]] = {}
"""The mark of each marked function by its id, with what keeps that id its own."""


def mark_of(value: object) -> Mark | None:
    """Return the mark of a function, if it has one."""
    found = _MARKS.get(id(value))
    return None if found is None else found[0]


def mark(function: C, what: Mark) -> C:
    """Put a mark on a function, and return that function.

    Raises:
        ConfigError: it is nothing that keeps its identity and can be called.
    """
    target: Any = function
    if isinstance(function, staticmethod | classmethod):
        target = function.__func__
    if not callable(target) or isinstance(target, MethodType):
        raise ConfigError(
            f"a function can be marked for capture, not {function!r}",
            code="not-markable",
            fix="mark the function itself; a method in its class: `Class.method`",
        )
    _MARKS[id(target)] = (what, _kept(target))
    return function


def _kept(value: object) -> object:
    """Return the reference that keeps the id of `value` from meaning another object.

    It is a weak reference that removes the mark when the object dies, or else the object itself.
    """
    key = id(value)
    try:
        return weakref.ref(value, lambda _: _MARKS.pop(key, None))
    except TypeError:  # built-in callables without weak references
        return value


def allow_in_graph(fn: C) -> C:
    """Make calls of a function one node of the graph: capture does not look inside.

    The function runs on fake tensors while capturing, which gives the form of its result, and on
    real ones when the graph runs. It must compute tensors (or a tuple or list of them) from
    tensors and constants, without side effects in Python, and take all parameters that need
    gradients as arguments. Backends that differentiate the graph look inside.

    Raises:
        ConfigError: `fn` cannot be marked.
    """
    return mark(fn, Allowed())


def disallow_in_graph(fn: C) -> C:
    """Break the graph at each call of a function, such as an operator of PyTorch.

    It runs in Python; functions that a Python function calls are captured on their own. Unlike
    `disable`, this marks the function itself.

    Raises:
        ConfigError: `fn` cannot be marked.
    """
    return mark(fn, Disallowed())


def forbid_in_graph(fn: C) -> C:
    """Make it an error (`ForbiddenError`) that captured code calls a function.

    Raises:
        ConfigError: `fn` cannot be marked.
    """
    return mark(fn, Forbidden())


def nested_compile_region(fn: C) -> C:
    """Compile a function's computation once for all its calls, such as those of a repeated block.

    Calls whose captured subgraphs and input sizes and types are equal become calls of one graph.
    That graph is lowered, scheduled and printed once, and so is its gradient. A deep model compiles
    nearly as fast as one of its blocks; kernels do not span the border of a block. Calls that write
    to tensors from outside, or return parts of them, stay as they are.

    Mark the block's function, or the `forward` of its class.

    Raises:
        ConfigError: `fn` cannot be marked.
    """
    return mark(fn, Repeated())


def assume_constant_result(fn: C) -> C:
    """Call a function once while capturing, and take its result as a constant.

    No guard checks the result later: the caller promises that it never changes. Arguments must be
    constants or objects from outside the captured code.

    Raises:
        ConfigError: `fn` cannot be marked.
    """
    return mark(fn, ConstantResult())


def substitute_in_graph(
    original: Callable[P, R],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a Python function (a *polyfill*) that is captured in place of `original`.

    For functions written in C, which capture cannot look into. Eager code goes on calling
    `original`.

    Args:
        original: the function that programs call.
        can_constant_fold_through: with constant arguments call `original` while capturing.
        skip_signature_check: do not compare the parameters of the two functions.

    Raises:
        ConfigError: the two take different parameters, or `original` cannot be marked.
    """

    def register(body: Callable[P, R]) -> Callable[P, R]:
        if not inspect.isfunction(body):
            cause = f"a substitute is a Python function, not {body!r}"
            raise ConfigError(cause, code="not-markable", fix="write one with `def`")
        if not skip_signature_check:
            _check_signatures(original, body)
        mark(original, Substituted(body, can_constant_fold_through))
        return body

    return register


def _check_signatures(original: Callable[..., Any], body: Callable[..., Any]) -> None:
    try:
        wanted = inspect.signature(original)
    except (TypeError, ValueError):  # many functions in C have none: nothing to compare with
        return
    given = inspect.signature(body)
    if _parameters(wanted) != _parameters(given):
        name = name_of(original)
        raise ConfigError(
            f"{name} takes {wanted}, its substitute {name_of(body)} takes {given}",
            code="signature-mismatch",
            fix=f"give it the parameters of {name}, or pass skip_signature_check=True",
        )


def _parameters(signature: inspect.Signature) -> list[tuple[str, Any, bool]]:
    """Return the name and kind of each parameter, and whether it may be left out."""
    return [(p.name, p.kind, p.default is not p.empty) for p in signature.parameters.values()]


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name for messages; the name of a C function includes its module."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    return name if inspect.isfunction(function) or not module else f"{module}.{name}"


# Requests -----------------------------------------------------------------------------------------


def is_compiling() -> bool:
    """Return whether this code is being captured: True in compiled code, False in eager PyTorch."""
    return False


def graph_break(msg: str = "") -> None:
    """Break the graph here; `msg` is the reason that reports show. Nothing happens in eager code.

    With ``fullgraph=True`` it is an error that shows the message.
    """


def skip_frame(msg: str = "") -> None:
    """Let the function that calls this run in Python; functions that it calls are captured."""


_ERROR_ON_GRAPH_BREAK: ContextVar[bool] = ContextVar("error_on_graph_break", default=False)


def errors_on_graph_break() -> bool:
    """Return whether a graph break is an error here, outside captured code."""
    return _ERROR_ON_GRAPH_BREAK.get()


class error_on_graph_break:
    """Make graph breaks errors, or allow them again, for a block or a decorated function.

    It acts on code captured inside the block: around calls of compiled functions, and inside
    compiled code. Unlike ``fullgraph=True``, which takes precedence, a part of a program is held to
    it. This thread only.
    """

    def __init__(self, error: bool) -> None:
        self.error = error
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_ERROR_ON_GRAPH_BREAK.get())
        _ERROR_ON_GRAPH_BREAK.set(self.error)

    def __exit__(self, *exception: object) -> None:
        _ERROR_ON_GRAPH_BREAK.set(self._before.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        error = self.error

        @functools.wraps(function)
        def calling(*args: P.args, **kwargs: P.kwargs) -> R:
            with error_on_graph_break(error):
                return function(*args, **kwargs)

        return calling
