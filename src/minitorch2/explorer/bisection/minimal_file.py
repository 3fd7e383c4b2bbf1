"""A failing program as one file of Python: the program, its inputs, and the check.

The file ends with status 1 while the program fails, so `git bisect run python FILE` can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minitorch2 import config
from minitorch2.explorer.bisection.inputs import written
from minitorch2.explorer.bisection.programs import Program

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
