"""Kinds of processors: the feature levels that kernels of a package are compiled for.

The levels are those of the x86-64 psABI. A processor has a level if it has all of its features,
which Linux lists in ``/proc/cpuinfo``.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from minitorch2.errors import ExportError

_V2: Final = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
_V3: Final = f"{_V2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
_V4: Final = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
LEVELS: Final = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The features of each level, by the kernel's names for them, from the least level on."""


@cache
def levels_here() -> tuple[str, ...]:
    """Return the levels of this processor, from the least one on."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return tuple(level for level, needed in LEVELS.items() if set(needed.split()) <= {*flags})


def known_levels(asked: Sequence[str] | None) -> tuple[str, ...]:
    """Return the levels to compile for: those asked for, or the highest one of this processor.

    Raises:
        ExportError: there is no such level, or no object code can be made for this processor.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise ExportError(
            f"packages hold kernels for x86-64, and this is {platform.machine()}",
            code="export", fix="save the program, and compile it where it is loaded",
        )  # fmt: skip
    if asked is not None and (not isinstance(asked, list | tuple) or not asked):
        raise ExportError(
            f"machines is {asked!r}, and no list of kinds of machines", code="export",
            fix='give a list: ["x86-64-v3"], or None for this machine',
        )  # fmt: skip
    for level in asked or ():
        if level not in LEVELS:
            raise ExportError(
                f"{level!r} is no kind of machine", code="export",
                fix=f"ask for some of {', '.join(LEVELS)}",
            )  # fmt: skip
    return tuple(asked or levels_here()[-1:] or ("x86-64-v2",))
