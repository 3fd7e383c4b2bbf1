"""The arguments of `compile`: modes, options by our names or by those of `torch.compile`, keywords.

    told    ::= mode | options, and keywords          one dict of options of `minitorch2.config`
    option  ::= a name of `Config`  |  a name of `TORCH_OPTIONS`  |  "guard_filter_fn"

A keyword takes precedence over an option of the same meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from minitorch2 import config
from minitorch2.bytecode.guards.filters import GuardFilter
from minitorch2.errors import ConfigError, did_you_mean
from minitorch2.errors.cautions import caution
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
GUARD_FILTER: Final = "guard_filter_fn"
STAGES_FOLDER: Final = "minitorch2_stages"
"""Where ``{"trace.enabled": True}`` lets compilations write their stages."""

MODES: dict[str, dict[str, config.Value]] = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {"max_autotune": True, "cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "lite": {"fusion": False, "inline_pointwise": False, "reorder_loops": False},
}
"""The options that each mode stands for."""

Options = Mapping[str, config.Value | GuardFilter]


@dataclass(frozen=True)
class TorchOption:
    """The translation of an option of `torch.compile` into options of this project.

    Attributes:
        name: our option with the same meaning; empty if there is none.
        values: our value for each of their values that differs; other values stay as they are.
        always: if we have no such option, the value that describes what we always do; None if
            neither value does.
    """

    name: str = ""
    values: Mapping[int, config.Value] | None = None
    always: bool | None = None


_NOT: Final[dict[int, config.Value]] = {True: False, False: True}
TORCH_OPTIONS: Final[Mapping[str, TorchOption]] = {
    "triton.cudagraphs": TorchOption("cudagraphs"),
    "max_autotune_gemm": TorchOption("max_autotune"),
    "emulate_precision_casts": TorchOption("emulate_eager"),
    "activation_memory_budget": TorchOption("memory_budget"),
    "size_asserts": TorchOption("assert_layouts"),
    "nan_asserts": TorchOption("assert_no_nan"),
    "fx_graph_cache": TorchOption("cache"),
    "force_disable_caches": TorchOption("cache", _NOT),
    "trace.enabled": TorchOption("stages_dir", {True: STAGES_FOLDER, False: ""}),
    "cpp.threads": TorchOption("threads", {-1: 0}),
    "cache_size_limit": TorchOption("recompile_limit"),
    "accumulated_cache_size_limit": TorchOption("accumulated_recompile_limit"),
    "error_on_recompile": TorchOption("fail_on_recompile"),
    "use_duck_shape": TorchOption("duck_shapes"),
    "epilogue_fusion": TorchOption(always=True),
    "prologue_fusion": TorchOption(always=True),
    "inplace_buffers": TorchOption(always=True),
    "triton.persistent_reductions": TorchOption(always=True),
    "triton.unique_kernel_names": TorchOption(always=True),
    "allow_buffer_reuse": TorchOption(always=True),
    "split_reductions": TorchOption(always=True),
    "shape_padding": TorchOption(always=False),
    "aggressive_fusion": TorchOption(always=False),
    "cpp_wrapper": TorchOption(always=False),
    "max_autotune_pointwise": TorchOption(),
    "coordinate_descent_tuning": TorchOption(),
}
"""By their names there. Those that mean the same under the same name (`max_autotune`, `freezing`,
`fallback_random`, `max_fusion_size`, ...) need no line."""


def options_of(
    mode: str | None,
    options: Options | None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    fail_on_recompile: bool = False,
    compare: bool = False,
    wait: bool = True,
) -> tuple[dict[str, config.Value], GuardFilter | None]:
    """Return the options in force while compiling, and the filter of guards.

    Raises:
        ConfigError: a mode, an option or a value is none (the message names the nearest), or both
            a mode and options are given.
    """
    _check_types(mode, options)
    if mode is not None and options is not None:
        raise ConfigError(
            "mode and options exclude each other",
            code="mode-and-options",
            fix=f"add the options of the mode to yours: {dict(MODES[known_mode(mode)])}",
        )
    given, guard_filter = _values(options or {})
    current = config.current()
    chosen: dict[str, config.Value] = {
        "fullgraph": current.fullgraph,
        "dynamic": current.dynamic,
        "disable": current.disable,
        "wait": current.wait,
        "compare": current.compare,
        **MODES[known_mode(mode or "default")],
        **given,
    }
    keywords = {"dynamic": dynamic, "recompile_limit": recompile_limit}
    chosen |= {name: value for name, value in keywords.items() if value is not None}
    flags = {"fullgraph": fullgraph, "disable": disable, "fail_on_recompile": fail_on_recompile}
    flags["compare"] = compare
    chosen |= {name: value for name, value in flags.items() if value is not False}
    chosen |= {} if wait is True else {"wait": wait}
    with config.patch(**chosen):  # checks them
        return chosen, guard_filter


def known_mode(mode: str) -> str:
    """Return a mode's name unchanged; raise ConfigError if the mode does not exist."""
    if mode not in MODES:
        hint = did_you_mean(mode, MODES, f"; there are {', '.join(MODES)}")
        raise ConfigError(f"there is no mode {mode!r}{hint}", code="unknown-mode")
    return mode


def _check_types(mode: object, options: object) -> None:
    if not isinstance(mode, str | None):
        cause = f"mode takes a name, not {mode!r}"
        raise ConfigError(cause, code="unknown-mode", fix=f"give one of {', '.join(MODES)}")
    names = isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
    if options is not None and not names:
        cause = f"options takes a dict of options by name, not {options!r}"
        raise ConfigError(cause, code="option-type", fix="write options={'max_fusion_size': 32}")


def _values(options: Options) -> tuple[dict[str, config.Value], GuardFilter | None]:
    """Return the options that are values, by our names, and the one that is a function."""
    guard_filter = options.get(GUARD_FILTER)
    if guard_filter is not None and not callable(guard_filter):
        cause = f"{GUARD_FILTER} takes a function, not {guard_filter!r}"
        raise ConfigError(cause, code="option-type", fix="see minitorch2.guard_filters")
    chosen: dict[str, Any] = {}
    for name, value in options.items():
        if name in TORCH_OPTIONS:
            chosen |= _translated(name, value)
        elif name != GUARD_FILTER:
            chosen[name] = value
    return chosen, guard_filter


def _translated(name: str, value: Any) -> dict[str, Any]:
    """Translate an option of `torch.compile` into ours; warn if there is nothing like it."""
    meant = TORCH_OPTIONS[name]
    if meant.name:
        values: Mapping[Any, config.Value] = meant.values or {}
        kind = next(map(type, values), type(value))
        if type(value) is not kind:
            cause = f"option {name} takes {kind.__name__}, not {value!r}"
            raise ConfigError(cause, code="option-type", fix=f"our name for it is {meant.name}")
        return {meant.name: values.get(value, value)}
    if meant.always is None or value is not meant.always:
        does = {None: "there is nothing like it here", True: "it is always done here"}
        why = does.get(meant.always, "it is never done here")
        caution(_LOGGER, f"the option {name}={value!r} has no effect: {why}; results are the same")
    return {}
