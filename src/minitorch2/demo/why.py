"""`python -m minitorch2 why [CODE]`: the meaning of a code in an error, and the remedy."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from textwrap import fill

from minitorch2.errors import did_you_mean
from minitorch2.errors.codes import ERROR_CODES

WIDTH = 88


def explained() -> dict[str, tuple[str, str]]:
    """Return meaning and remedy of each code: of graph breaks, other errors, rules of graphs."""
    # Deferred, as it imports torch: where that is missing, the codes of other errors are told.
    from minitorch2.bytecode.compiling.reasons import reasons
    from minitorch2.graph.verify import RULES  # for the same reason

    report = ERROR_CODES["verification"].remedy
    found = {each.code: (each.meaning, each.remedy) for each in reasons().values()}
    found |= {each.code: (each.meaning, each.remedy) for each in ERROR_CODES.values()}
    for rule in RULES:
        found[rule.__name__.replace("_", "-")] = (f"a graph breaks a rule: {rule.__doc__}", report)
    return found


def explanation(code: str, meaning: str, remedy: str) -> Iterator[str]:
    """Yield the lines about one code."""
    yield f"[{code}]"
    yield fill(meaning[0].upper() + meaning[1:].rstrip(".") + ".", WIDTH)
    yield fill(f"What helps: {remedy}.", WIDTH)


def main(arguments: Sequence[str]) -> int:
    """Print the meaning of a code, or of all codes; the status is 1 for an unknown code."""
    parser = argparse.ArgumentParser(prog="python -m minitorch2 why", description=__doc__)
    parser.add_argument("code", nargs="?", help="the word in brackets; without it all are listed")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args(arguments)
    code, known = options.code and options.code.strip("[]"), explained()
    if options.json and code in (None, *known):
        chosen = known if code is None else {code: known[code]}
        data = {each: {"meaning": m, "remedy": r} for each, (m, r) in sorted(chosen.items())}
        print(json.dumps(data, indent=1))
        return 0
    if code is None:
        width = max(map(len, known))
        print("\n".join(f"{each:{width}}  {known[each][0]}" for each in sorted(known)))
        return 0
    if code not in known:
        hint = did_you_mean(code, known, "; `why` alone lists them")
        print(f"there is no code {code!r}{hint}", file=sys.stderr)
        return 1
    print("\n".join(explanation(code, *known[code])))
    return 0
