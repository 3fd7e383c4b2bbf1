"""An explanation of a call that can also be explored, as a page."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from minitorch2.bytecode.observe.explain import Explanation
from minitorch2.explorer.notebook import part
from minitorch2.explorer.page import page_of
from minitorch2.explorer.recorder import Recorder
from minitorch2.explorer.store import Store


@dataclass(frozen=True)
class ExploredCall(Explanation):
    """The report on a call, and the records of all its stages.

    Attributes:
        recorder: the log that has seen the compilations.
    """

    recorder: Recorder = field(default_factory=Recorder, repr=False, compare=False)

    @property
    def store(self) -> Store:
        """The records: every stage, line by line, and what each line comes from.

        Backward graphs that have not run are compiled first, so that they are recorded, too.
        """
        self.recorder.compile_backward()
        return replace(self.recorder.store, report=str(self).split("\n"))

    def to_html(self, path: str | Path | None = None) -> str:
        """Return everything as one HTML page that needs no other file.

        The page shows the stages side by side. Pointing at a line lights, in every stage, what it
        comes from and what came from it.

        Args:
            path: a file to write the page to as well.
        """
        page = page_of(self.store, f"minitorch2: {self._name()}")
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def _repr_html_(self) -> str:
        """Return numbers, breaks, source, guards, seconds and graphs for a notebook."""
        return part(self)

    def _name(self) -> str:
        first = next(iter(self.recorder.store.compilations.values()), None)
        return "nothing was compiled" if first is None else first.function


def explored(explanation: Explanation, recorder: Recorder) -> ExploredCall:
    """Return an explanation with the records of the same call."""
    return ExploredCall(**vars(explanation), recorder=recorder)
