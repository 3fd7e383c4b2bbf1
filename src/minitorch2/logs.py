"""Loggers under `minitorch2.*`, silent until the user asks for output.

The library never prints. It logs to `get_logger(__name__)`; an application configures those loggers
as any others, or asks for output with one line or one environment variable:

    minitorch2.logs.set_logs("+bytecode,graph_breaks,-codegen")     # or MINITORCH2_LOGS=...

Grammar of the text:

    logs ::= item ("," item)*  |  "help"
    item ::= ["+" | "-"] name
    name ::= a package or module of minitorch2  |  an artifact  |  "all"

`+name` shows everything that a package logs, `name` shows what happens, `-name` shows errors only.
An artifact is a stage of the compilation (`minitorch2.stages`), shown when it is made; `-` hides it
again. `bytecode` names both. `MINITORCH2_LOGS_OUT=file` sends all of it to a file. While a frame is
compiled, messages begin with its number and the number of its entry: `[0/1]`.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from minitorch2.errors import ConfigError, did_you_mean
from minitorch2.foundation.blocks import holding

ROOT = "minitorch2"
ENVIRONMENT_VARIABLE = "MINITORCH2_LOGS"
OUT_VARIABLE = "MINITORCH2_LOGS_OUT"
_LEVEL_OF_PREFIX = {"+": logging.DEBUG, "-": logging.ERROR}
_FORMAT = "%(levelname).1s %(name)s: %(compile_id)s%(message)s"
_PACKAGE = Path(__file__).parent
_LOGGING = re.compile(r"get_logger\(__name__\)|^@(?:graph|script)_pass", re.MULTILINE)

logging.getLogger(ROOT).addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Artifact:
    """A named part of a compilation's output that can be shown: the texts of some stages."""

    name: str
    stages: tuple[str, ...]
    meaning: str


ARTIFACTS = (
    Artifact("source", ("source.py",), "the user's function"),
    Artifact("bytecode", ("bytecode_in.txt", "bytecode_out.txt"), "its bytecode and what replaces"),
    Artifact("graph", ("captured_graph",), "captured graphs as tables"),
    Artifact("graph_code", ("captured_graph.py",), "captured graphs as Python"),
    Artifact("graph_breaks", ("graph_break",), "where and why graphs end early"),
    Artifact("guards", ("guards.py",), "guard functions"),
    Artifact("recompiles", ("recompile",), "a line for each recompilation: what failed, a fix"),
    Artifact("residual_code", ("residual.py",), "the Python that takes a frame's place"),
    Artifact(
        "aot_graphs",
        ("aten graph.py", "forward graph.py", "backward graph.py"),
        "graphs after autograd",
    ),
    Artifact("rewrites", ("rewrites.txt",), "what passes rewrite, by which law, of which line"),
    Artifact("joint_graph", ("joint graph.py",), "forward and backward in one graph"),
    Artifact("cut", ("cut.dot",), "the joint graph and its cut, a drawing for Graphviz"),
    Artifact("ir", ("loopir.py",), "loop nests before fusion"),
    Artifact("schedule", ("schedule.txt",), "what was fused, and why the rest was not"),
    Artifact("decisions", ("decisions.txt",), "what was inlined, ordered, removed, and why"),
    Artifact("kernel_code", ("kernel.py",), "generated kernels"),
    Artifact("output_code", ("wrapper.py",), "the generated module with kernels and their calls"),
)
"""Everything that can be shown by name, in the order in which it is made."""

_ARTIFACT_OF_STAGE = {stage: artifact for artifact in ARTIFACTS for stage in artifact.stages}
_COMPILE_ID: ContextVar[str] = ContextVar("compile_id", default="")


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module of minitorch2: call it with `__name__`."""
    return logging.getLogger(name if name.split(".")[0] == ROOT else f"{ROOT}.{name}")


def artifact_logger(name: str) -> logging.Logger:
    """Return the logger that shows an artifact, at the level DEBUG."""
    return get_logger(f"{ROOT}.artifacts.{name}")


def shows(stage: str) -> bool:
    """Return whether a stage of this name is logged.

    It is logged if the user asked for its artifact or for all details of this library. An
    application that logs its own details has not asked for them.
    """
    artifact = _ARTIFACT_OF_STAGE.get(stage)
    return artifact is not None and _asked_level(artifact_logger(artifact.name)) == logging.DEBUG


def _asked_level(logger: logging.Logger) -> int:
    """Return the level set for a logger of the library, or for one above it; 0 if none is set."""
    found: logging.Logger | None = logger
    while found is not None and not found.level and found.name != ROOT:
        found = found.parent
    return found.level if found is not None else 0


def show(stage: str, text: str) -> None:
    """Log a stage under the name of its artifact, if the user asked for that artifact."""
    if shows(stage):
        title = f"{stage}\n" if "\n" in text.strip() else ""
        artifact_logger(_ARTIFACT_OF_STAGE[stage].name).debug("%s%s", title, text.rstrip("\n"))


def are_read(package: str) -> bool:
    """Return whether anybody asked for the log of a package or of one of its modules.

    The root logger of the application does not count.
    """
    own = get_logger(package)
    if _asked_level(own) == logging.DEBUG:
        return True
    loggers = logging.Logger.manager.loggerDict.items()
    parts = [each for name, each in loggers if name == own.name or name.startswith(f"{own.name}.")]
    levels = [each.level for each in parts if isinstance(each, logging.Logger)]
    return any(0 < level <= logging.INFO for level in levels)


# Which compilation this is ------------------------------------------------------------------------


def compile_id() -> str:
    """Return the id of the compilation in progress, such as ``"0/1"`` (frame, entry), or ""."""
    return _COMPILE_ID.get()


def compiling(identity: str) -> AbstractContextManager[object]:
    """Let messages inside the block belong to this compilation."""
    return holding(_COMPILE_ID, identity)


class _CompileId(logging.Filter):
    """The filter that adds to each record the id of the compilation that it belongs to."""

    def filter(self, record: logging.LogRecord) -> bool:
        current = compile_id()
        record.compile_id = f"[{current}] " if current else ""
        return True


# What is shown ------------------------------------------------------------------------------------


def set_logs(wanted: str, *, out: str | Path | None = None) -> None:
    """Show log records on standard error, as the grammar above says.

    Each named logger gets a level, and the library's root one handler; the application's own
    root logger is left alone.

    Args:
        wanted: what to show; ``"help"`` lists what there is.
        out: a file to append to, instead of standard error.

    Raises:
        ConfigError: a name is unknown; the message names the nearest one. Nothing is changed.
    """
    items = [part.strip() for part in wanted.split(",") if part.strip()]
    for item in items:
        _check(item.lstrip("+-"))
    _show_on(out)
    for item in items:
        _set_levels(item.lstrip("+-"), item[0])


def help_text() -> str:
    """Return the help that `set_logs` shows: the names that it accepts."""
    width = max(len(artifact.name) for artifact in ARTIFACTS)
    return "\n".join(
        [
            f"{ENVIRONMENT_VARIABLE}: names, separated by commas; +name shows more, -name less",
            "artifacts, shown when they are made:",
            *(f"  {artifact.name:{width}}  {artifact.meaning}" for artifact in ARTIFACTS),
            "packages and modules (also theirs, such as bytecode.dispatch), and all:",
            f"  {' '.join(_components())}",
            f"{OUT_VARIABLE}: a file instead of standard error",
        ]
    )


def _set_levels(name: str, prefix: str) -> None:
    level = _LEVEL_OF_PREFIX.get(prefix, logging.INFO)
    if name == "help":
        logger = get_logger(__name__)
        logger.setLevel(logging.INFO)
        logger.info(help_text())
    elif name == "all":
        get_logger(ROOT).setLevel(level)
    elif _is_component(name):
        get_logger(name).setLevel(level)
    if name in _artifact_names():
        artifact_logger(name).setLevel(logging.ERROR if prefix == "-" else logging.DEBUG)


def _check(name: str) -> None:
    if name in ("all", "help") or name in _artifact_names():
        return
    if _is_component(name):
        if not _logs_something(name):
            cause = f"{name} logs nothing"
            raise ConfigError(cause, code="unknown-log", fix=f"{ENVIRONMENT_VARIABLE}=help")
        return
    hint = did_you_mean(name, [*_artifact_names(), *_components()])
    raise ConfigError(
        f"there is no log {name!r}{hint}", code="unknown-log", fix=f"{ENVIRONMENT_VARIABLE}=help"
    )


def _artifact_names() -> list[str]:
    return [artifact.name for artifact in ARTIFACTS]


def _components() -> list[str]:
    """Return the packages and modules of the library that log something."""
    names = {path.stem for path in _PACKAGE.iterdir() if path.suffix in ("", ".py")}
    return sorted(name for name in names if _is_component(name) and _logs_something(name))


def _is_component(name: str) -> bool:
    """Return whether a dotted name is a package or a module of the library."""
    path = _PACKAGE.joinpath(*name.split("."))
    is_module = path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
    return is_module and not path.name.startswith("__")


def _logs_something(name: str) -> bool:
    """Return whether a package or module has a logger of its own, or a pass, which has one."""
    path = _PACKAGE.joinpath(*name.split("."))
    files = [*path.rglob("*.py")] if path.is_dir() else [path.with_suffix(".py")]
    return any(_LOGGING.search(file.read_text(encoding="utf-8")) for file in files)


def _show_on(out: str | Path | None) -> None:
    """Give the root logger one handler that is ours: for this file, or for standard error."""
    root = logging.getLogger(ROOT)
    ours = [handler for handler in root.handlers if isinstance(handler, _Ours)]
    if ours and out is None:
        return
    for handler in ours:
        root.removeHandler(handler)
        handler.close()
    made = _ToStandardError() if out is None else _ToFile(out, encoding="utf-8")
    made.setFormatter(logging.Formatter(_FORMAT))
    made.addFilter(_CompileId())
    root.addHandler(made)


class _Ours:
    """The mark of the handler that `set_logs` made."""


class _ToStandardError(logging.StreamHandler, _Ours):  # type: ignore[type-arg]
    """To standard error."""


class _ToFile(logging.FileHandler, _Ours):
    """To a file."""


def _from_environment() -> None:
    """Obey the environment; a name that is unknown there is a warning, not an error."""
    out = os.environ.get(OUT_VARIABLE) or None
    for item in os.environ.get(ENVIRONMENT_VARIABLE, "").split(","):
        try:
            set_logs(item, out=out)
        except ConfigError as error:
            _show_on(out)
            get_logger(__name__).warning("%s: %s", ENVIRONMENT_VARIABLE, error)
        out = None  # the file stays


if ENVIRONMENT_VARIABLE in os.environ:
    _from_environment()
