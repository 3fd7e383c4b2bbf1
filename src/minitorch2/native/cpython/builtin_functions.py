"""Built-in functions of Python with a body in machine code.

A body is `PyObject *body(PyObject *receiver, PyObject **arguments, int64 count)`; Python calls it
as cheaply as one of its own (`METH_FASTCALL`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from minitorch2.native.cpython.errors import UnsupportedPythonError

api = ctypes.pythonapi

METH_FASTCALL = 0x0080


class MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`, which functions point to: it lives as long as the process."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def new_method(name: str, body: int, doc: str | None = None) -> MethodDef:
    """Describe a built-in function, given the address of its body."""
    method = MethodDef(name.encode(), body, METH_FASTCALL, None if doc is None else doc.encode())
    keep_forever(method)
    return method


def bind(method: MethodDef, receiver: object) -> Callable[..., Any]:
    """Make a built-in function, given the object that its body gets as `receiver`."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., Any] = make(ctypes.addressof(method), receiver, None)
    return function


def address(*names: str) -> int:
    """Return the address of the first of these C functions that the interpreter exports."""
    for name in names:
        try:
            found = ctypes.cast(getattr(api, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        assert found is not None
        return found
    raise UnsupportedPythonError(f"this interpreter ({sys.version}) does not export {names[0]}")


def keep_forever(value: object) -> None:
    """Leak one reference on purpose, for an object that machine code refers to by address."""
    api.Py_IncRef(ctypes.py_object(value))
