"""A failing program as one file of Python: the program, its inputs, and the check.

The file ends with status 1 while the program fails, so `git bisect run python FILE` can use it.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from minitorch2 import config
from minitorch2.backends import fitting_backend
from minitorch2.bytecode.compiling.backend_calls import name_of
from minitorch2.explorer.bisection.frontends import FRONTENDS
from minitorch2.explorer.bisection.inputs import written
from minitorch2.explorer.bisection.programs import Program
from minitorch2.explorer.bisection.statements import Source
from minitorch2.explorer.bisection.trials import Trial

FORM: Final = '''"""{summary}

Found by `minitorch2.bisect`. The status is 1 as long as the program fails.
"""

{imports}


{program}

def inputs():
    """Return the arguments of the program."""
{inputs}
    return [{names}]


if __name__ == "__main__":
    raise SystemExit(check(program, inputs(), {how}))
'''
PART: Final = '''"""{summary}

Found by `minitorch2.bisect`: the statements that fail. Its inputs are not written here.
"""

{program}'''
CHECK: Final = "from minitorch2.explorer.bisection import check"


def file_of(
    program: Program, backend: str | None, options: Mapping[str, config.Value], summary: str
) -> str:
    """Return the text of a file that shows how a program fails.

    Raises:
        ValueError: the program calls what no import reaches.
    """
    head, _, body = program.text().partition("def program(")
    lines = [line for i, value in enumerate(program.inputs) for line in written(i, value)]
    for number, dims in program.varying().items():
        lines += [f"minitorch2.maybe_mark_dynamic(x{number}, {dim})" for dim in dims]
    text = "\n".join(lines)
    packed = ["import base64", "import zlib"] if "base64." in text else []
    marking = ["import minitorch2"] if "minitorch2." in text else []
    imports = sorted({*packed, *head.split("\n"), "import torch"} - {""})
    return FORM.format(
        summary=summary.replace("\\", "/").replace('"""', "'''"),
        imports="\n".join([*imports, "", *marking, CHECK]),
        program=f"def program({body}",
        inputs="\n".join(f"    {line}" for line in lines),
        names=", ".join(f"x{number}" for number in range(len(program.inputs))),
        how=f"backend={backend!r}, options={dict(options)!r}",
    )


def file_of_function(source: Source, inputs: Sequence[Any], trial: Trial, summary: str) -> str:
    """Return the text of a file that shows how a function fails.

    It imports what the function reads of its module. If no import reaches that, or no text gives
    the inputs, the file has the function alone.
    """
    summary = summary.replace("\\", "/").replace('"""', "'''")
    tree = copy.deepcopy(source.tree)
    tree.name = "program"
    program = Source(source.function, tree).text
    try:
        lines = [line for number, value in enumerate(inputs) for line in written(number, value)]
        ast.parse("\n".join(lines))  # some objects have no text that Python reads
        imports = list(_imports(source))
    except (ValueError, TypeError, SyntaxError):
        return PART.format(summary=summary, program=program)
    frontend = next((n for n, each in FRONTENDS.items() if each is trial.frontend), None)
    backend = None if trial.backend is fitting_backend else name_of(trial.backend)
    how = f"backend={backend!r}, options={_chosen(trial.options)!r}"
    packed = ["import base64", "import zlib"] if any("base64." in line for line in lines) else []
    return FORM.format(
        summary=summary,
        imports="\n".join(sorted({*packed, *imports, "import torch", CHECK})),
        program=program,
        inputs="\n".join(f"    {line}" for line in lines),
        names=", ".join(f"x{number}" for number in range(len(inputs))),
        how=how if frontend is None else f"{how}, frontend={frontend!r}",
    )


def _chosen(options: Mapping[str, config.Value]) -> dict[str, config.Value]:
    """Return the options that are not at their defaults."""
    plain = vars(config.Config())
    return {name: v for name, v in options.items() if v != plain.get(name, v if not v else None)}


def _imports(source: Source) -> Iterator[str]:
    """Yield the imports of the names that a function reads.

    Raises:
        ValueError: no import reaches one of them.
    """
    function = source.function
    read = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
    own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    for name in sorted(read - own):
        value = function.__globals__.get(name)
        if name in function.__code__.co_freevars:
            raise ValueError(f"no import reaches {name}")
        if isinstance(value, ModuleType):
            alias = "" if value.__name__ == name else f" as {name}"
            yield f"import {value.__name__}{alias}"
        elif name in function.__globals__:
            if function.__module__ == "__main__" or function.__module__ not in sys.modules:
                raise ValueError(f"no import reaches {name}")
            yield f"from {function.__module__} import {name}"
