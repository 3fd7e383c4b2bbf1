"""The table of private things of other projects: who needs each, and what happens without it.

The rows are data: `table.toml`. `python -m minitorch2 doctor` probes them all.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True)
class Row:
    """A private thing, or the private names to which one module of this floor gives plain ones.

    Attributes:
        thing: its name.
        of: the project that it belongs to; `VERSIONS_SEEN` has those that it was seen in.
        needed_by: the part of minitorch2 that uses it.
        probe: a module of this floor, perhaps with `:name` of a constant that is true or of a
            function that gives such a value. Without the thing an error is raised instead.
        without: what happens if it is missing.
        needed: whether minitorch2 cannot work then.
    """

    thing: str
    of: str
    needed_by: str
    probe: str
    without: str
    needed: bool = False

    def missing(self) -> str | None:
        """Return why the thing is not as expected here; None if it is."""
        module, _, name = self.probe.partition(":")
        try:
            found: Any = import_module(f"{__package__}.{module}")
            found = getattr(found, name) if name else found
            found = found() if callable(found) else found
        except Exception as error:  # noqa: BLE001 - another project may have changed anything
            return f"{type(error).__name__}: {error}"
        return None if found else "it does not look as expected"

    def verdict(self, cause: str | None) -> str:
        """Return what the answer of `missing` means for the user."""
        word = "MISSING" if self.needed else "missing"
        return "ok" if cause is None else f"{word}: {self.without} ({cause})"


_DATA: Final = tomllib.loads(files(__package__).joinpath("table.toml").read_text(encoding="utf-8"))
TABLE: Final = [Row(**row) for row in _DATA["row"]]
"""The rows, those of one project side by side."""
VERSIONS_SEEN: Final[dict[str, list[str]]] = _DATA["seen"]
"""The minor versions of each project in which its things were seen, in order."""
