"""The parameters of a function as text, and functions generated from it.

Compiled code takes the values of all parameters positionally, in the order of their slots:
positional ones, keyword-only ones, the tuple of ``*args``, the dict of ``**kwargs``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Final

from minitorch2.bytecode.frames.names import parameter_names
from minitorch2.bytecode.machine.per_code import once_per_code

DISPATCH_FILE = "<minitorch2 dispatch, left out by warnings as importlib._bootstrap is>"
"""The file of generated functions. `warnings.warn(stacklevel=)` does not count frames of files with
these two words in their names, and a compiled function's caller is its dispatch function's."""


PRIVATE: Final = "_minitorch2_"
"""The prefix of names in generated functions, unless the name of a parameter begins so."""
_BUILTINS: Final = {
    error.__name__: error for error in (BaseException, GeneratorExit, StopAsyncIteration)
} | {"globals": globals}
"""The builtins that generated functions read."""


@dataclass(frozen=True)
class Signature:
    """The parameters of a code object.

    Attributes:
        names: all of them in slot order, as identifiers.
        header: the parameter list without defaults: ``a, /, b, *args, k, **kw``.
        call: the argument list that passes them on: ``a, b, *args, k=k, **kw``.
        private: the prefix of names in generated functions with these parameters.
    """

    names: tuple[str, ...]
    header: str
    call: str
    private: str


@once_per_code
def signature_of(code: CodeType) -> Signature:
    """Return the signature of a function's code."""
    star, double = (
        bool(code.co_flags & inspect.CO_VARARGS),
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
    )
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    total = count + keyword_only + star + double
    names = parameter_names(code, total)
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
    private = PRIVATE
    while any(name.startswith(private) for name in names):
        private = f"_{private}"
    return Signature(names, ", ".join(header), ", ".join(call), private)


def generate_function(template: str, code: CodeType, values: Mapping[str, object]) -> FunctionType:
    """Make a function with the parameters of another one.

    Args:
        template: one ``def`` or ``async def`` statement. In it ``{header}`` and ``{call}`` are
            the signature's, ``{names}`` its names, ``{values}`` the names for a place before
            more values, and ``{forget}`` deletes them. All other names in it begin with
            `PRIVATE`, builtins included: a parameter may have the name of a builtin.
        code: the code of the other function.
        values: the objects that the text reads, by its names without `PRIVATE`.
    """
    signature = signature_of(code)
    text = template.replace(PRIVATE, signature.private).format(
        header=signature.header,
        call=signature.call,
        names=", ".join(signature.names),
        values="".join(f"{name}, " for name in signature.names),
        forget="; ".join(f"del {name}" for name in signature.names),
    )
    scope = {signature.private + name: value for name, value in {**_BUILTINS, **values}.items()}
    exec(compile(text, DISPATCH_FILE, "exec"), scope)
    made = scope[text.removeprefix("async ").removeprefix("def ").partition("(")[0]]
    assert isinstance(made, FunctionType)
    return made


def taking_all_positionally(function: FunctionType) -> FunctionType:
    """Return a function that calls another with the values of all parameters in slot order."""
    text = f"def call({{names}}): return {PRIVATE}function({{call}})"
    return generate_function(text, function.__code__, {"function": function})
