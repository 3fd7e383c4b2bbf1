"""Counts how many functions of torch.nn.functional compile as scripts, and why others do not.

python -m tests.script_survey            the reasons by count
python -m tests.script_survey NAME...    the whole error of each function named
"""

import inspect
import sys
from collections import Counter

import torch.nn.functional as functional

from minitorch2.script.frontend.compile import compile_function
from minitorch2.script.syntax.errors import ScriptError

# Decorators and other parts of the module that no model calls.
NO_PROGRAMS = {"boolean_dispatch", "handle_torch_function", "assert_int_or_pair"}


def functions():
    """The functions of torch.nn.functional that are written in Python."""
    for name, found in sorted(vars(functional).items()):
        if not inspect.isfunction(found) or name in NO_PROGRAMS:
            continue
        if found.__module__ == functional.__name__ or "if_true" in found.__code__.co_freevars:
            yield name, found


def versions(function):
    """The function itself, or both that a `boolean_dispatch` chooses from."""
    if "if_true" not in function.__code__.co_freevars:
        return [function]
    cells = dict(zip(function.__code__.co_freevars, function.__closure__))
    return [cells[name].cell_contents for name in ("if_true", "if_false")]


def survey():
    """Return the error of each function, or None, by its name."""
    found = {}
    for name, function in functions():
        try:
            for version in versions(function):
                compile_function(version)
            found[name] = None
        except Exception as error:
            found[name] = error
    return found


def reason(error):
    """The error without names and places, to be counted."""
    if not isinstance(error, ScriptError):
        return f"CRASH {type(error).__name__}: {error}"[:160]
    return f"{error.code}: {error.cause.splitlines()[0]}"[:220]


def main(names):
    found = survey()
    for name in names:
        print(f"--- {name}\n{found[name]}")
        if found[name] is not None and not isinstance(found[name], ScriptError):
            raise found[name]
    if names:
        return
    reasons = Counter(reason(error) for error in found.values() if error is not None)
    for text, count in reasons.most_common():
        print(f"{count:4}  {text}")
    compiled = sum(error is None for error in found.values())
    print(f"{compiled} of {len(found)} functions of torch.nn.functional compile")


if __name__ == "__main__":
    main(sys.argv[1:])
