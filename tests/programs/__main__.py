"""`python -m tests.programs [--seed S] [--sample N] [NAME ...]`: programs with kernels, both modes.

A random sample of them, or those that are named, each with sizes as numbers first and as symbols.
`--device cuda` makes their tensors on a GPU. `--backend triton` runs Triton's kernels, which are
interpreted where there is no GPU.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence

import torch

from tests.nets.report import Tally
from tests.programs.run import PROGRAMS, ROUGH, TOLERANCE, compare


def main(arguments: Sequence[str]) -> int:
    """Run, report, and say whether anything was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=6, help="how many programs")
    parser.add_argument("--backend", help="where not the default one")
    parser.add_argument("--mode", help="of `minitorch2.compile`")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    torch.set_default_device(options.device)
    if not torch.cuda.is_available():  # Triton reads it when a kernel imports it
        os.environ.setdefault("TRITON_INTERPRET", "1")
    given = {"backend": options.backend, "mode": options.mode}
    settings = {name: value for name, value in given.items() if value is not None}
    tolerance = ROUGH if options.device == "cuda" or options.backend == "triton" else TOLERANCE
    found = Tally()
    chosen = random.Random(options.seed).sample(list(PROGRAMS), options.sample)
    for name in options.names or chosen:
        for dynamic in (None, True):
            found.tried += 1
            try:
                counts = compare(name, tolerance, dynamic=dynamic, **settings).counts
                print(name, dynamic, {k: counts[k] for k in ("graphs", "graph_breaks")}, flush=True)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                found.catch(f"{name}-{dynamic}", text, isinstance(error, AssertionError))
    found.write()
    print("\n\n".join([f"{found.tried} runs, {found.caught} differ", *found.failures]))
    return int(found.caught > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
