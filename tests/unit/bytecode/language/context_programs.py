"""Context variables."""

import contextvars

from tests.unit.bytecode.language import program

V = contextvars.ContextVar("V", default=2)


W = contextvars.ContextVar("W")


@program
def nested(x):
    a = V.set(10)
    b = V.set(20)
    r = V.get()
    V.reset(b)
    s = V.get()
    V.reset(a)
    return (x + r, s, V.get())


@program
def inside(x):
    v = contextvars.ContextVar("v", default=x)
    t = v.set(x + 1)
    y = v.get()
    v.reset(t)
    return (y, v.get())


@program
def escapes(x):
    v = contextvars.ContextVar("v", default=3)
    v.set(4)
    return (x + 1, v.name, v.get())


@program
def around(x):
    t = W.set(x)
    try:
        return helper()
    finally:
        W.reset(t)


def helper():
    return W.get() * 2


@program
def unset_err(x):
    try:
        W.get()
    except LookupError as e:
        return (x + 1, e.args[0] is W, W.get(5))
