"""Python's constructs outside of the language, with what to write instead."""

from __future__ import annotations

from typing import Final

from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import SourceRange

_TABLE = """
async | an `async` statement | use `minitorch2.jit.fork` and `minitorch2.jit.wait`
await | `await` | use `minitorch2.jit.wait`
bytes | a literal of bytes | use a str, or a list of ints
class | a class within a function | define it at the top of the file
class-decorator | a decorator of a class | leave it out
class-keyword | a keyword among the bases of a class | leave it out
comprehension-loops | a comprehension with several `for` | write the loops as statements
def | a function within a function | define it at the top of the file
dict-unpacking | `**` within a dict | call `update` on the dict
format | a conversion or a format within an f-string | call `str.format`
from-raise | `raise ... from` | raise the exception alone
generator | a generator expression | write a list comprehension: put [ ] around it
global | `global` | give the value as an argument, and return what changes
import | `import` within a program | import at the top of the file
lambda | `lambda` | define a function at the top of the file
loop-else | `else` after a loop | set a flag before `break`, and test it after the loop
match | `match` | write `if` and `elif`
nonlocal | `nonlocal` | give the value as an argument, and return what changes
set | a set | use a dict whose values are True
try | `try` | test for the case before, with `if`
type | a `type` statement | write the type where it is used
type-parameters | type parameters of a function | leave them out
walrus | `:=` | assign in a statement before
yield | `yield` | append to a list and return it
"""

REFUSALS: Final[dict[str, tuple[str, str]]] = {
    name: (what, fix)
    for name, what, fix in (line.split(" | ") for line in _TABLE.strip().splitlines())
}
"""What each construct is called in a message, and what to write instead."""


def refusal(construct: str, where: SourceRange) -> ScriptError:
    """Return the error for a construct of `REFUSALS` at a place."""
    what, fix = REFUSALS[construct]
    return ScriptError(
        f"{what} is no part of the language", where, code="script-construct", fix=fix
    )


def syntax_error(message: str, where: SourceRange) -> ScriptError:
    """Return the error for text that follows no rule of the grammar."""
    return ScriptError(message, where, code="script-syntax")
