"""Options: one typed record, patched per call, per block or by the environment.

Every option is one line of `Config` with its type, its meaning, its range if it is a number, and
its default. The documentation prints its table from there. Read an option where it matters, as late
as possible:

    config.current().recompile_limit

Change it for a block or a function (only on this thread), for one compiled function through
`compile(..., options={...})`, or for a process with `MINITORCH2_RECOMPILE_LIMIT=16`. Options are
not attributes of this module: to assign to one is an error.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, get_args, get_origin, get_type_hints

from minitorch2.errors import ConfigError, did_you_mean
from minitorch2.errors.cautions import caution
from minitorch2.foundation.blocks import holding
from minitorch2.logs import ENVIRONMENT_VARIABLE as LOGS_VARIABLE
from minitorch2.logs import OUT_VARIABLE, get_logger

PREFIX = "MINITORCH2_"
TRACE_VARIABLE = "MINITORCH2_TRACE"
"""The variable that names the folder of a trace (`minitorch2.explorer`)."""
_NO_OPTIONS = (LOGS_VARIABLE, OUT_VARIABLE, TRACE_VARIABLE)
_LOGGER = get_logger(__name__)
_WORDS = {
    "1": True, "true": True, "yes": True, "on": True,
    "0": False, "false": False, "no": False, "off": False,
    "none": None, "auto": None, "": None,
}  # fmt: skip

Value = bool | int | float | str | tuple[str, ...] | None


@dataclass(frozen=True)
class Range:
    """The numbers that an option may be: from `least` on, up to `most` if there is a limit."""

    least: float
    most: float | None = None

    def __contains__(self, value: float) -> bool:
        return self.least <= value and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        end = "or more" if self.most is None else f"to {self.most}"
        return f"{self.least} {end}"


class Choice(tuple[str, ...]):
    """The words that an option may be."""

    def __new__(cls, *words: str) -> Choice:
        """Make a choice between these words."""
        return super().__new__(cls, words)

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self))}"


@dataclass(frozen=True)
class Config:
    """All options of minitorch2, with their defaults."""

    # Capture
    disable: Annotated[bool, "compile() returns its argument unchanged"] = False
    fullgraph: Annotated[bool, "a graph break is an error"] = False
    dynamic: Annotated[
        bool | None, "sizes are symbols: True all, False none, None those that have changed"
    ] = None
    capture_data_dependent: Annotated[
        bool, "sizes and numbers that come out of data stay in the graph, as symbols"
    ] = True
    duck_shapes: Annotated[bool, "sizes that are equal while compiling share a symbol"] = True
    backend: Annotated[
        str, "backend where compile() is given none; empty = triton on a GPU, numba elsewhere"
    ] = ""
    recompile_limit: Annotated[
        int, "compiled entries per function; then it runs eagerly", Range(1)
    ] = 8
    accumulated_recompile_limit: Annotated[
        int,
        "entries behind the first of their function, of all functions that one compile() met",
        Range(0),
    ] = 256
    fail_on_recompile: Annotated[
        bool, "a call of a compiled function that would be compiled once more is an error"
    ] = False
    wait: Annotated[
        bool,
        "calls wait until they are compiled; if not, they run in Python until another thread has",
    ] = True
    suppress_errors: Annotated[
        bool, "an internal error while capturing is logged and the function runs in Python"
    ] = True
    verbose_tracebacks: Annotated[
        bool, "tracebacks of the user's exceptions keep this package's own frames"
    ] = False
    donate_inputs: Annotated[bool, "an argument's new value may be computed in its memory"] = True
    # Deferred execution
    lazy_compile_after: Annotated[
        int, "so many equal steps of a lazy program run operator by operator", Range(1)
    ] = 1
    lazy_most_operators: Annotated[
        int, "a step of a lazy program ends after so many operators", Range(1)
    ] = 50_000
    lazy_most_places: Annotated[int, "operators of lazy steps remembered", Range(1)] = 200_000
    lazy_bf16: Annotated[bool, "regions run in autocast to bfloat16, backward passes too"] = False
    # Scripts
    script_profiled_runs: Annotated[
        int, "so many first runs of a script watch its tensors, before it is optimized", Range(0)
    ] = 1
    script_smallest_region: Annotated[
        int, "fewest operators of a script that are compiled together", Range(1)
    ] = 2
    script_most_bailouts: Annotated[
        int, "after so many failed guards, a script is optimized anew for all sizes seen", Range(1)
    ] = 1
    script_numba: Annotated[
        bool, "loops of scripts over numbers alone become machine code; ints have 64 bits there"
    ] = True
    # Rewriting
    freezing: Annotated[
        bool, "without gradients, parameters are constants: later changes of them have no effect"
    ] = False
    disabled_passes: Annotated[
        tuple[str, ...], "names of passes over graphs that are left out"
    ] = ()
    pass_limits: Annotated[
        tuple[str, ...],
        "`name=n`: that pass (or `fuse_loops`) stops after n rewrites of a graph",
    ] = ()
    # Gradients
    memory_budget: Annotated[
        float, "what part of the minimum cut's bytes may be kept for backward", Range(0, 1)
    ] = 1.0
    fallback_random: Annotated[
        bool, "random operators draw eager's numbers; if not, kernels draw their own, from a seed"
    ] = True
    bucket_bytes: Annotated[
        int, "gradients are given after each so many bytes of them; 0 = all at once", Range(0)
    ] = 0
    # Loops
    max_fusion_size: Annotated[int, "most loop nests that one kernel may hold", Range(1)] = 64
    realize_reads_threshold: Annotated[
        int, "a value that reads more buffers than this is stored instead of recomputed", Range(0)
    ] = 4
    unroll_reductions_threshold: Annotated[
        int, "reductions of fewer elements are unrolled", Range(0)
    ] = 8
    inline_pointwise: Annotated[
        bool, "readers recompute cheap elementwise values instead of loading them"
    ] = True
    fusion: Annotated[bool, "loop nests that share memory become one kernel"] = True
    reorder_loops: Annotated[
        bool, "loops run in the order that most of their accesses vote for"
    ] = True
    join_launches: Annotated[
        bool, "small kernels that need nothing of each other share a launch"
    ] = True
    emulate_eager: Annotated[
        bool, "float16 and bfloat16 values are rounded after each operator, as in eager PyTorch"
    ] = False
    # Kernels
    arenas: Annotated[
        bool, "intermediates that only kernels see are places in one allocation, not tensors"
    ] = True
    threads: Annotated[int, "threads of CPU kernels, 0 = as many as torch uses", Range(0)] = 0
    max_autotune: Annotated[bool, "on a GPU, measure which calls templates should do"] = False
    cudagraphs: Annotated[bool, "on a GPU, record the launches of a graph and replay them"] = False
    cpu_compiler: Annotated[
        str,
        "what compiles CPU kernels: the project's own front end, Numba, or nothing, to debug them",
        Choice("minitorch2", "numba", "python"),
    ] = "minitorch2"
    halide_schedule: Annotated[
        str,
        "the order of Halide kernels' loops: ours, or one that an autoscheduler finds",
        Choice("ours", "mullapudi2016", "adams2019", "li2018", "anderson2021"),
    ] = "ours"
    cache: Annotated[bool, "keep compiled graphs and kernels on disk"] = True
    cache_megabytes: Annotated[int, "the cache folder is kept below this size", Range(0)] = 1024
    cache_dir: Annotated[str, "folder of the cache, empty = the user's cache folder"] = ""
    # Checking
    compare: Annotated[bool, "each call of a compiled graph is compared with eager PyTorch"] = False
    verify: Annotated[bool, "check the graph before and after each pass"] = False
    assert_layouts: Annotated[
        bool, "compiled graphs check the sizes and strides of their inputs at each call"
    ] = False
    assert_no_nan: Annotated[bool, "compiled graphs check what each kernel stores for NaN"] = False
    step_residual_code: Annotated[
        bool, "debuggers and tracebacks show residual code, not the user's lines it stands for"
    ] = False
    # Reporting
    notice_seconds: Annotated[
        float, "a compilation that takes longer says so, once; 0 = none does", Range(0)
    ] = 5.0
    stages_dir: Annotated[
        str, "each compilation writes its stages into a folder in this one; empty = none does"
    ] = ""


_TYPES = get_type_hints(Config)
_NOTES = {
    name: get_args(hint)[1:] for name, hint in get_type_hints(Config, include_extras=True).items()
}
"""Of each option its meaning, and its range if it has one."""
VARIABLES = {PREFIX + name.upper(): name for name in _TYPES} | {"MINITORCH2_DEBUG": "stages_dir"}
"""The option that each environment variable sets."""


@dataclass(frozen=True)
class Option:
    """An option as the documentation describes it."""

    name: str
    type: str
    default: Value
    environment: str
    meaning: str
    range: Range | Choice | None = None


def list_options() -> list[Option]:
    """Return every option in the order of `Config`."""
    return [
        Option(name, _type_name(name), getattr(Config, name), PREFIX + name.upper(), *notes)
        for name, notes in _NOTES.items()
    ]


def current() -> Config:
    """Return the options in force here."""
    return _CURRENT.get()


def patch(**changes: Value) -> AbstractContextManager[Config]:
    """Change options for a `with` block, or for a function as its decorator.

    Raises:
        ConfigError: a name is unknown (the message names the nearest one), or a value has
            another type than the option or is out of its range.
    """
    changes = {name: _as_tuple(value) for name, value in changes.items()}
    for name, value in changes.items():
        _check(name, value)
    return _patched(changes)


def use(config: Config) -> AbstractContextManager[Config]:
    """Put a whole `Config` in force, for example one kept from another thread."""
    return holding(_CURRENT, config)


@contextmanager
def _patched(changes: Mapping[str, Value]) -> Iterator[Config]:
    # mypy cannot see that `_check` has compared each value with its field's type.
    with use(dataclasses.replace(current(), **changes)) as config:  # type: ignore[arg-type]
        yield config


def from_environment(environment: Mapping[str, str]) -> Config:
    """Return the options that `MINITORCH2_*` variables ask for; unknown names are warned of.

    Raises:
        ConfigError: a variable's text is no value of its option.
    """
    changes: dict[str, Value] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in _NO_OPTIONS:
            continue
        if variable in VARIABLES:
            changes[VARIABLES[variable]] = _parse(VARIABLES[variable], text)
        else:
            near = did_you_mean(variable, [*VARIABLES, *_NO_OPTIONS])
            caution(_LOGGER, f"the environment variable {variable} sets nothing{near}")
    return dataclasses.replace(Config(), **changes)  # type: ignore[arg-type]


def _as_tuple(value: Value) -> Value:
    """Return a list of names as a tuple, which is the type of such options."""
    return tuple(value) if isinstance(value, list) else value


def _kinds(name: str) -> tuple[type, ...]:
    """Return the types that an option may have: `bool | None` -> (bool, NoneType)."""
    hint = _TYPES[name]
    return (tuple,) if get_origin(hint) is tuple else get_args(hint) or (hint,)


def _type_name(name: str) -> str:
    return " | ".join("None" if kind is type(None) else kind.__name__ for kind in _kinds(name))


def _check(name: str, value: Value) -> None:
    if name not in _TYPES:
        raise ConfigError(_unknown(name), code="unknown-option")
    default = f"give it such a value; {getattr(Config, name)!r} is the default"
    if not _suits(value, _kinds(name)):
        cause = f"option {name} takes {_type_name(name)}, not {value!r}"
        raise ConfigError(cause, code="option-type", fix=default)
    for limits in _NOTES[name][1:]:
        if value not in limits:
            cause = f"option {name} takes {_type_name(name)}, {limits}, not {value!r}"
            raise ConfigError(cause, code="option-range", fix=default)


def _suits(value: Value, kinds: tuple[type, ...]) -> bool:
    """Return whether an option of the types `kinds` may have the value; an int is also a float."""
    return type(value) in kinds or (type(value) is int and float in kinds)


def _unknown(name: str) -> str:
    return f"there is no option {name!r}{did_you_mean(name, _TYPES)}"


def _parse(name: str, text: str) -> Value:
    kinds = _kinds(name)
    if tuple in kinds:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        value: Value = _WORDS[text.lower()] if bool in kinds else kinds[0](text)
        _check(name, value)
    except (KeyError, ValueError) as error:
        cause = f"{PREFIX}{name.upper()} takes {_type_name(name)}, not {text!r}"
        raise ConfigError(cause, code="option-type") from error
    except ConfigError as error:
        cause = f"{PREFIX}{name.upper()}: {error.cause}"
        raise ConfigError(cause, code=error.code, fix=error.fix) from None
    return value


_OF_THIS_PROCESS = from_environment(os.environ)
_CURRENT: ContextVar[Config] = ContextVar("config", default=_OF_THIS_PROCESS)


class _Module(ModuleType):
    """The type of this module, which refuses to set attributes: options are not set that way."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _TYPES or not (name in self.__dict__ or name.startswith("_")):
            cause = f"minitorch2.config.{name} = {value!r} would set nothing: "
            cause += "options are no attributes" if name in _TYPES else _unknown(name)
            raise ConfigError(
                cause,
                code="option-assigned",
                fix="set one by `with minitorch2.config.patch(name=value):`, "
                "`compile(..., options={...})` or an environment variable",
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module
