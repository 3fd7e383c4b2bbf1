"""Load files of exported programs, run each on three sizes, and save the results; run by a test.

The process has no access to the programs' source. For packages it also says which modules it has.
"""

import json
import sys
from pathlib import Path

import torch

import minitorch2


def main(folder: Path) -> None:
    calls = torch.load(folder / "calls.pt", weights_only=True)
    results, errors = {}, {}
    for name, given in calls.items():
        try:
            program = minitorch2.load(folder / f"{name}.mt2")
            results[name] = [flat(program(*args, **kwargs)) for args, kwargs in given]
        except minitorch2.errors.ExportError as error:
            errors[name] = str(error)
    torch.save(results, folder / "results.pt")
    watched = ("numba", "llvmlite", "networkx", "triton", "minitorch2.graph", "minitorch2.codegen")
    found = {"errors": errors, "modules": [name for name in watched if name in sys.modules]}
    (folder / "found.json").write_text(json.dumps(found))


def flat(value):
    """Return the leaves of a result, without the classes of containers."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in flat(part)]
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
