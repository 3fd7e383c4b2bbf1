"""The trace of a job: each process writes what it compiles as lines of JSON into one folder.

    file ::= process line*                       trace_HOST_PID.jsonl
    line ::= process      version, host, pid, rank, argv, and the versions of Python and packages
          |  compilation  a record of `store`: its files, and panes of the stages below
          |  phase        id, name, start (seconds since 1970), seconds, own (without inner phases)
          |  recompile    the guard that failed: expected, actual, the user's line, what helps
          |  as_is        a function that runs in Python, and why
          |  fallback, library_call              an operator, its line, and the reason
          |  counts       what was counted since the last such line
    pane ::= source | graph | guards | residual | wrapper forward | wrapper backward
          |  joint        with its drawing and the cut, if the graph was compiled with gradients

Each line is one JSON object with a `kind`. A backward graph that is compiled later makes another
line for the same compilation, with the panes that are new. A trace leaves caches as they are: only
stages that are made anyway are written. So a graph that is found in a cache has no joint graph.
`MINITORCH2_TRACE=folder` switches it on. `store.VERSION` is the version of this form: it grows when
a line or a pane changes its meaning. A reader takes lines and panes that it does not know as they
are, and refuses a later version.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch

from minitorch2 import config, stages
from minitorch2.bytecode.dispatch.recompiles import Recompile
from minitorch2.explorer.capture import break_of
from minitorch2.explorer.recorder import Recorder
from minitorch2.explorer.store import VERSION, compilation_data
from minitorch2.logs import compile_id

TAKEN: Final = frozenset([
    "source.py", "captured_graph.py", "graph_break", "guards.py", "residual.py", "wrapper.py",
    "recompile", "as_is", "fallback", "library_call",
])  # fmt: skip
"""The stages that are made whether or not anybody reads them, and that keep no cache from work."""
JOINT: Final = frozenset(["joint graph.py", "cut.dot"])
"""The stages that are there once a joint graph was traced, which a cached graph is not."""


class TraceLog(Recorder):
    """A recorder that writes each compilation as soon as it has ended, and then forgets it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._pid = 0
        self._lock = threading.Lock()
        self._traced = threading.local()
        self._origin = time.time() - time.perf_counter()

    def takes(self, name: str) -> bool:
        """Return whether the trace has stages of this name, here and now."""
        is_traced = getattr(self._traced, "id", None) == compile_id()
        return name in TAKEN or (name in JOINT and is_traced)

    def watch(self) -> stages.Watch | None:
        """Follow no steps: a job has too many."""
        return None

    def add(self, stage: stages.Stage, subject: object = None) -> None:
        """Write an event, or record a stage of the compilation that is under way."""
        if stage.name in ("fallback", "library_call"):
            self._write(stage.name, **_operator(subject))
        elif stage.name == "recompile":
            assert isinstance(subject, Recompile)
            self._write("recompile", **_recompile(subject))
        elif stage.name == "as_is":
            assert isinstance(subject, tuple)
            code, found = subject
            place = f"{code.co_filename}:{code.co_firstlineno}"
            self._write("as_is", function=code.co_qualname, at=place, **asdict(break_of(found)))
        else:
            super().add(stage, None if stage.name == "wrapper.py" else subject)
            self.stages.clear()

    def charge(self, name: str, seconds: float, start: float, elapsed: float) -> None:
        """Write a phase; behind the outermost one, write the compilation as well."""
        super().charge(name, seconds, start, elapsed)
        if name in ("joint", "other"):
            self._traced.id = compile_id() if name == "joint" else None
        begun, thread = self._origin + start, threading.get_ident()
        self._write("phase", name=name, start=begun, seconds=elapsed, own=seconds, thread=thread)
        if name == "other":
            done = self.store.compilations.pop(compile_id(), None)
            self.forget(compile_id())
            if done is not None:
                self._write("compilation", files=self.store.files, **compilation_data(done))
            counts, self.counts = self.counts, type(self.counts)()
            self._write("counts", counts=dict(counts))

    def _write(self, kind: str, **facts: Any) -> None:
        with self._lock:
            if self._pid != os.getpid():  # a forked process writes a file of its own
                self._pid = os.getpid()
                self._append("process", process_facts())
            self._append(kind, {"id": compile_id()} | facts)

    def _append(self, kind: str, facts: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"trace_{platform.node()}_{self._pid}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind} | facts, separators=(",", ":")) + "\n")


def process_facts() -> dict[str, Any]:
    """Return what the first line of a file says about its process."""
    return {
        "version": VERSION,
        "host": platform.node(),
        "pid": os.getpid(),
        "rank": int(os.environ.get("RANK", "-1")),
        "argv": sys.argv,
        "time": time.time(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "minitorch2": version("minitorch2"),
    }


def _operator(subject: object) -> dict[str, Any]:
    assert isinstance(subject, tuple)
    target, lines, reason = subject
    places = [f"{line.file}:{line.line}" for line in lines if line is not None]
    return {"operator": str(target), "line": "".join(places[:1]), "reason": reason}


def _recompile(found: Recompile) -> dict[str, Any]:
    return {
        "function": found.function,
        "entry": found.entry,
        "guard": str(found.guard),
        "what": found.what,
        "expected": found.expected,
        "actual": found.actual,
        "line": f"{found.line.file}:{found.line.line}" if found.line is not None else "",
        "stack": [str(line) for line in found.stack],
        "times": found.times,
        "fix": found.fix,
    }


_begun: TraceLog | None = None


def begin() -> None:
    """Trace what this process compiles from now on into the folder that the environment names."""
    global _begun
    if _begun is None:
        _begun = TraceLog(Path(os.environ[config.TRACE_VARIABLE]))
        stages.open_everywhere(_begun)


def end() -> None:
    """Trace no more."""
    global _begun
    if _begun is not None:
        stages.close_everywhere(_begun)
        _begun = None
