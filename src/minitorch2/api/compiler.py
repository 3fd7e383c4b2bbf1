"""`compile`, `reset`, and the backends to compile with.

PyTorch 2 paper, section 3.1.
"""

from __future__ import annotations

import functools
import os
import reprlib
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypedDict, TypeVar, Unpack, overload

import torch

from minitorch2 import config
from minitorch2.api.compile_options import MODES, Options, known_mode, options_of
from minitorch2.api.compiled_module import compile_module
from minitorch2.backends import fitting_backend, lookup_backend
from minitorch2.bytecode import kernel_capture as kernel_capture  # an extension, see below
from minitorch2.bytecode import numpy_capture as numpy_capture  # an extension: it registers itself
from minitorch2.bytecode import optimizer_capture as optimizer_capture  # likewise
from minitorch2.bytecode.compiling.compile_frame import Backend
from minitorch2.bytecode.compiling.reasons import page_of
from minitorch2.bytecode.dispatch import Dispatcher, Region, original_of, reset_regions
from minitorch2.bytecode.frames.torchscript import is_scripted_module
from minitorch2.errors import ConfigError, GraphBreakError
from minitorch2.errors.cautions import caution
from minitorch2.logs import get_logger
from minitorch2.marks.dimensions import ShapesSpec

_LOGGER = get_logger(__name__)

C = TypeVar("C", bound=Callable[..., Any])

BackendChoice = str | Backend | None


class Keywords(TypedDict, total=False):
    """The types of the keywords of `compile`, which its two forms share."""

    fullgraph: bool
    dynamic: bool | None
    backend: BackendChoice
    mode: str | None
    options: Options | None
    disable: bool
    recompile_limit: int | None
    fail_on_recompile: bool
    compare: bool
    wait: bool
    isolate_recompiles: bool
    shapes_spec: ShapesSpec | None
    name: str | None


@overload
def compile(model: C, **keywords: Unpack[Keywords]) -> C: ...


@overload
def compile(model: None = ..., **keywords: Unpack[Keywords]) -> Callable[[C], C]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: BackendChoice = None,
    mode: str | None = None,
    options: Options | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    fail_on_recompile: bool = False,
    compare: bool = False,
    wait: bool = True,
    isolate_recompiles: bool = False,
    shapes_spec: ShapesSpec | None = None,
    name: str | None = None,
) -> Any:
    """Make a function or module that means the same and runs faster.

    Use it as a function, or as a decorator with or without parentheses.

    Args:
        model: a function, method, static or class method, `torch.nn.Module` or other callable. A
            function gives a function of the same name and signature; a module gives a module of the
            same class that shares its parameters, buffers, hooks and submodules.
        fullgraph: a graph break is an error.
        dynamic: whether one compilation serves many sizes. True: all sizes of inputs are symbols
            from the start; False: each size is compiled; None: the sizes that change become
            symbols when they do.
        backend: name of a backend, or ``backend(graph_module, example_inputs) -> callable``;
            without it the one of `set_default_backend`.
        mode: a name from `MODES` for a set of options; not together with `options`. On a
            GPU, ``"reduce-overhead"`` replays launches and ``"max-autotune"`` also measures which
            kernels are fastest. ``"lite"`` compiles each operator by itself.
        options: options of `minitorch2.config` for this function only, those of
            `torch.compile` that mean the same under their names there; besides,
            ``guard_filter_fn`` says which guards to keep (`minitorch2.guard_filters`). Where a
            keyword says otherwise, the keyword counts.
        disable: return `model` as it is.
        recompile_limit: how many entries one function may have, see the option of this name.
        fail_on_recompile: a call that needs a second compilation is an error, which says what
            differs. (The stance of this name forbids the first one as well.)
        compare: each call of a compiled graph is compared with eager PyTorch, its gradients
            included, on copies of its inputs; a difference is an error.
        wait: False: a thread compiles beside the program; calls run in Python until what they need
            is ready, backward graph included. An error, such as a graph break with `fullgraph`, is
            raised at the next call. `finish_compiling` waits.
        isolate_recompiles: used as a decorator, each function that it decorates has entries of its
            own and counts them alone. Otherwise those made from one ``def`` share them. Different
            calls of `compile` never do.
        shapes_spec: the dimensions that vary, by the name of a parameter, each as `mark_dynamic`
            takes it: ``{"x": 0}`` or ``{"x": {0: Dim("batch", max=64)}}``. What a function never
            sees as its parameter is marked by hand.
        name: stands before the function's name in warnings, errors and logs.

    Raises:
        ConfigError: an unknown mode or option (the message names the nearest), a value out of its
            range, both a mode and options, or nothing that can be compiled.
        BackendError: an unknown backend.
        RecompileError: at a call, if it needs a second compilation and `fail_on_recompile`.
        CheckError: at a call, if `compare` and a result, a written input or a gradient differs.
        GraphBreakError: at a call, if `fullgraph` and the function cannot be one graph, or has
            reached `recompile_limit`.
    """
    chosen, guard_filter = options_of(
        mode,
        options,
        fullgraph=fullgraph,
        dynamic=dynamic,
        disable=disable,
        recompile_limit=recompile_limit,
        fail_on_recompile=fail_on_recompile,
        compare=compare,
        wait=wait,
    )
    if os.environ.get(config.TRACE_VARIABLE):
        # Deferred: it reads all floors, and most programs are not traced.
        from minitorch2.explorer import trace

        trace.begin()
    if chosen["disable"]:
        return (lambda given: given) if model is None else model
    with config.patch(**chosen):
        to_use = backend_of(backend)
    if chosen["compare"]:
        # Deferred: it reads all floors, and most programs are not compared.
        from minitorch2.explorer.bisection.checked import compared

        to_use = compared(to_use)

    def region() -> Region:
        return Region(
            to_use, bool(chosen["fullgraph"]), chosen, name or "", guard_filter, shapes_spec
        )

    if model is not None:
        return compile_callable(model, region())
    shared = region()
    return lambda given: compile_callable(given, region() if isolate_recompiles else shared)


_default: BackendChoice = None


def set_default_backend(backend: BackendChoice) -> None:
    """Set the backend that `compile` uses where it is given none; acts on the whole process.

    Args:
        backend: a name or a callable; None for the option ``backend``, which the environment
            variable `MINITORCH2_BACKEND` sets, or else for the one that fits the tensors.

    Raises:
        BackendError: an unknown backend.
    """
    global _default
    if backend is not None:
        lookup_backend(backend)
    _default = backend


def get_default_backend() -> BackendChoice:
    """Return the backend that `compile` uses where it is given none.

    None stands for ``"triton"`` where tensors are on a GPU and ``"numba"`` elsewhere.
    """
    return _default or config.current().backend or None


def backend_of(chosen: BackendChoice) -> Backend:
    """Return the backend to use; without a choice, the one that fits the inputs of each graph."""
    chosen = chosen or get_default_backend()
    return fitting_backend if chosen is None else lookup_backend(chosen)


def list_mode_options(mode: str | None = None) -> dict[str, Any]:
    """Return the options that a mode stands for; without an argument, the options of each mode.

    Raises:
        ConfigError: there is no such mode (the message names the nearest).
    """
    if mode is None:
        return {name: dict(options) for name, options in MODES.items()}
    return dict(MODES[known_mode(mode)])


def compile_callable(model: Any, region: Region) -> Any:
    """Return the compiled form of anything that can be called."""
    if isinstance(model, torch.nn.Module):
        scripted = is_scripted_module(model)
        return _scripted(model, region) if scripted else compile_module(model, region)
    if isinstance(model, FunctionType):
        return compile_function(model, region)
    if isinstance(model, MethodType):
        return MethodType(compile_callable(model.__func__, region), model.__self__)
    if isinstance(model, staticmethod | classmethod):
        return type(model)(compile_callable(model.__func__, region))
    if isinstance(model, type) or not callable(model):
        raise _not_compilable(model)
    return _compiled_object(model, region)


def _not_compilable(model: object) -> ConfigError:
    if isinstance(model, type):
        cause = f"compile() takes no class, and {model.__qualname__} is one"
        fix = "compile an instance of it, or decorate its methods (`forward` of a module)"
    else:
        cause = f"compile() takes what can be called, and {reprlib.repr(model)} cannot"
        fix = "give it a function, a torch.nn.Module or an object with `__call__`"
    return ConfigError(cause, code="not-compilable", fix=fix)


def _scripted(model: Any, region: Region) -> Any:
    """Return a TorchScript module unchanged: it is a program of another compiler.

    Raises:
        GraphBreakError: the region wants one graph.
    """
    cause = f"{getattr(model, 'original_name', type(model).__name__)} is a TorchScript module"
    fix = "compile the Python module that it was made from"
    if region.fullgraph:
        raise GraphBreakError(cause, code="script-module", fix=fix, see=page_of("script-module"))
    caution(_LOGGER, f"{cause}; it runs as it is. Fix: {fix}")
    return model


def _compiled_object(model: Callable[..., Any], region: Region) -> Callable[..., Any]:
    """Compile the `__call__` of a callable object's class; wrap a builtin into a function."""
    call = next((vars(c)["__call__"] for c in type(model).__mro__ if "__call__" in vars(c)), None)
    if isinstance(call, FunctionType):
        return MethodType(compile_function(call, region), model)

    def calling(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    functools.update_wrapper(calling, model)
    assert isinstance(calling, FunctionType)
    return compile_function(calling, region)


def compile_function(function: FunctionType, region: Region) -> FunctionType:
    """Return a function of the same name and signature that dispatches to the compiled entries."""
    return Dispatcher(region, original_of(function)).as_function()


def reset() -> None:
    """Forget everything that was compiled; compiled functions start anew."""
    reset_regions()


def cudagraph_mark_step_begin() -> None:
    """Say that a step of training or inference begins, for graphs whose launches are replayed.

    Results are right without this call: no result is overwritten while the program holds it. But if
    a program holds many results of a graph at once, the graph's kernels are launched one by one
    from then on. A new step lets the graph be recorded and replayed again, even while the program
    holds results of earlier steps.
    """
    # Deferred: where nothing was compiled for a GPU, no graph is replayed.
    from minitorch2.codegen.replay import begin_step

    begin_step()
