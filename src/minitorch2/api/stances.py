"""`set_stance`: the behaviour of all compiled functions of the process when called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from minitorch2.backends import lookup_backend
from minitorch2.bytecode.compiling.compile_frame import Backend
from minitorch2.bytecode.dispatch import Stance, take_stance
from minitorch2.bytecode.dispatch.stance import NAMES
from minitorch2.errors import ConfigError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


class set_stance:
    """Change the behaviour of compiled functions: from now on, for a block, or for a function.

    Called as a function it acts at once, until it is called again. A block or a decorated function
    puts the previous stance back. A stance holds for the whole process, other threads included. The
    default stance adds no cost to calls.

    Args:
        stance: one of

            - ``"default"``: compile what no entry serves;
            - ``"force_eager"``: run the user's function, as if nothing had been compiled;
            - ``"eager_on_recompile"``: use the entries that there are, else run in Python;
            - ``"fail_on_recompile"``: use them, else raise `RecompileError`;
            - ``"eager_then_compile"``: run the first call of each function in Python;
            - ``"aot_eager_then_compile"``: run it by the backend ``aot_eager``, which saves the
              memory for backward that compiled code saves.
        skip_guard_eval_unsafe: check only guards in which the entries of a function differ. A call
            that needed a new entry goes unnoticed, and its result is wrong: use it when all calls
            to come are like those that were compiled.
        force_backend: with the stance ``"default"``: compile with this backend, whatever
            `compile` was given; entries of other backends wait.

    Raises:
        ConfigError: there is no such stance, or `force_backend` with another stance.
        BackendError: an unknown backend.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Backend | None = None,
    ) -> None:
        self._stance = _checked(stance, skip_guard_eval_unsafe, force_backend)
        self._previous = take_stance(self._stance)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        take_stance(self._previous)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function: the stance holds while the function runs, not before."""
        take_stance(self._previous)

        @functools.wraps(function)
        def calling(*args: P.args, **kwargs: P.kwargs) -> R:
            previous = take_stance(self._stance)
            try:
                return function(*args, **kwargs)
            finally:
                take_stance(previous)

        return calling


def _checked(name: str, skip_guards: bool, backend: str | Backend | None) -> Stance:
    if name not in NAMES:
        raise ConfigError(
            f"there is no stance {name!r}{did_you_mean(name, NAMES)}",
            code="unknown-stance",
            fix=f"choose one of {', '.join(NAMES)}",
        )
    if backend is not None and name != "default":
        raise ConfigError(
            f"force_backend goes with the stance 'default', not with {name!r}",
            code="stance-backend",
            fix="leave out one of them",
        )
    forced = None if backend is None else lookup_backend(backend)
    first = lookup_backend("aot_eager") if name == "aot_eager_then_compile" else None
    return Stance(name, skip_guards, forced, first)
