"""The parameters of a function as text, and functions generated from it.

Compiled code takes the values of all parameters positionally, in the order of their slots:
positional ones, keyword-only ones, the tuple of ``*args``, the dict of ``**kwargs``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType

from minitorch2.bytecode.machine.per_code import once_per_code
from minitorch2.bytecode.names import identifier

DISPATCH_FILE = "<minitorch2 dispatch, left out by warnings as importlib._bootstrap is>"
"""The file of generated functions. `warnings.warn(stacklevel=)` does not count frames of files with
these two words in their names, and a compiled function's caller is its dispatch function's."""


@dataclass(frozen=True)
class Signature:
    """The parameters of a code object.

    Attributes:
        names: all of them in slot order, as identifiers.
        header: the parameter list without defaults: ``a, /, b, *args, k, **kw``.
        call: the argument list that passes them on: ``a, b, *args, k=k, **kw``.
    """

    names: tuple[str, ...]
    header: str
    call: str


@once_per_code
def signature_of(code: CodeType) -> Signature:
    """The signature of a function's code."""
    star, double = (
        bool(code.co_flags & inspect.CO_VARARGS),
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
    )
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    total = count + keyword_only + star + double
    names = tuple(identifier(name) for name in code.co_varnames[:total])
    header, call = list(names[:count]), list(names[:count])
    if code.co_posonlyargcount:
        header.insert(code.co_posonlyargcount, "/")
    if star:
        header.append("*" + names[count + keyword_only])
        call.append("*" + names[count + keyword_only])
    elif keyword_only:
        header.append("*")
    header += names[count : count + keyword_only]
    call += [f"{name}={name}" for name in names[count : count + keyword_only]]
    if double:
        header.append("**" + names[-1])
        call.append("**" + names[-1])
    return Signature(names, ", ".join(header), ", ".join(call))


def generate_function(text: str, values: Mapping[str, object]) -> FunctionType:
    """Run a function definition.

    Args:
        text: one ``def`` or ``async def`` statement.
        values: names that the text reads.
    """
    scope = dict(values)
    exec(compile(text, DISPATCH_FILE, "exec"), scope)
    made = scope[text.removeprefix("async ").removeprefix("def ").partition("(")[0]]
    assert isinstance(made, FunctionType)
    return made


def taking_all_positionally(function: FunctionType) -> FunctionType:
    """Calls a function with the values of all its parameters in the order of their slots."""
    signature = signature_of(function.__code__)
    text = f"def call({', '.join(signature.names)}): return _minitorch2_function({signature.call})"
    return generate_function(text, {"_minitorch2_function": function})
