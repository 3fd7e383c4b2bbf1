"""The trace of a job, read back: a process for each file, with its records and events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minitorch2.errors import ConfigError
from minitorch2.explorer.store import VERSION, Compilation, Store, compilation_of


@dataclass
class Process:
    """One process of a job.

    Attributes:
        facts: the first line of its file.
        store: its compilations.
        events: its other lines, by kind.
        counts: the sum of all that it counted.
        damaged: lines that are none of a trace; a process that was killed leaves one.
    """

    facts: dict[str, Any]
    store: Store = field(default_factory=Store)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    damaged: int = 0

    @property
    def name(self) -> str:
        """The rank, if the process has one, or else its number."""
        rank = self.facts.get("rank", -1)
        return f"rank {rank}" if rank >= 0 else f"process {self.facts.get('pid')}"

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind, in the order in which they were written."""
        return self.events.get(kind, [])

    def take(self, line: dict[str, Any]) -> None:
        """Take in one line of the file."""
        if line["kind"] == "compilation":
            self._merge(compilation_of(line))
            self.store.files = line["files"]
        elif line["kind"] == "counts":
            self.counts.update(line["counts"])
        else:
            self.events.setdefault(line["kind"], []).append(line)

    def _merge(self, new: Compilation) -> None:
        """Add a compilation, or the panes and seconds of its backward graph."""
        old = self.store.compilations.get(new.id)
        if old is None or new.function:
            self.store.compilations[new.id] = new
            return
        old.panes += [pane for pane in new.panes if old.pane(pane.kind) is None]
        for name, seconds in new.seconds.items():
            old.seconds[name] = old.seconds.get(name, 0.0) + seconds


@dataclass
class Job:
    """All processes that have written into one folder."""

    processes: list[Process]

    def store(self) -> Store:
        """Return the compilations of all processes; their ids begin with the process."""
        if len(self.processes) == 1:
            return self.processes[0].store
        whole = Store()
        for process in self.processes:
            for each in process.store.compilations.values():
                identity = f"{process.name}: {each.id}"
                broken = each.resumes and (f"{process.name}: {each.resumes[0]}", each.resumes[1])
                whole.compilations[identity] = replace(each, id=identity, resumes=broken)
        return whole


def read_job(folder: Path) -> Job:
    """Return the job whose processes have written into a folder.

    Raises:
        ConfigError: there is no trace in the folder, or it was written by a later version.
    """
    files = sorted(folder.glob("trace_*.jsonl"))
    if not files:
        raise ConfigError(
            f"no trace in {folder}", code="no-trace", fix="run the job with MINITORCH2_TRACE=FOLDER"
        )
    return Job([_process(file) for file in files])


def _process(file: Path) -> Process:
    process = Process({})
    for line in _lines(file, process):
        if line["kind"] == "process":
            if line.get("version", 0) > VERSION:
                cause = f"{file} has version {line['version']} of the form, this reads {VERSION}"
                raise ConfigError(
                    cause, code="no-trace", fix="read it with the version that wrote it"
                )
            process.facts = line
        else:
            process.take(line)
    return process


def _lines(file: Path, process: Process) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for text in lines:
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                line = None
            if isinstance(line, dict) and "kind" in line:
                yield line
            else:
                process.damaged += 1


def chrome_trace(job: Job) -> dict[str, Any]:
    """Return the phases of all processes as `chrome://tracing` and Perfetto read them."""
    events: list[dict[str, Any]] = []
    for process in job.processes:
        pid = process.facts.get("pid", 0)
        events.append(
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process.name}}
        )
        events += [_complete(pid, phase) for phase in process.of("phase")]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _complete(pid: int, phase: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": "compile" if phase["name"] == "other" else phase["name"],
        "cat": "compile",
        "pid": pid,
        "tid": phase["thread"],
        "ts": phase["start"] * 1e6,
        "dur": phase["seconds"] * 1e6,
        "args": {"compilation": phase["id"], "own seconds": phase["own"]},
    }
