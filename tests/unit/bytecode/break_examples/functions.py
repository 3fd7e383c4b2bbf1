"""Reasons that have to do with calls and control flow."""

import asyncio
import dataclasses
import functools
import inspect
import json
import logging
import shlex
import sys
import time
import warnings
from unittest import mock

import torch

import minitorch2
from minitorch2.bytecode.evaluation import frame_evaluator
from tests.unit.bytecode.break_examples import X, breaks, whole


@breaks("c-function", X)
def function_written_in_c(x):
    return x + time.perf_counter()


@breaks("builtin", X)
def builtin_with_effects(x):
    y = x + 1
    print(end="")
    return y * 2


@breaks("not-inlined", X)
def library_function(x):
    return x + len(shlex.split("a b"))


@whole("not-inlined", X, len(shlex.split("a b")))
def library_function_outside(x, length):
    return x + length


def depth(x, n):
    return x if n == 0 else depth(x, n - 1) + 1


async def later(x):
    await asyncio.sleep(0)
    return x + 1


@breaks("async", X)
def asynchronous(x):
    coroutine = later(x)
    coroutine.send(None)
    coroutine.close()
    return x + 1


@functools.lru_cache
def cached(x):
    return 1


@breaks("cached-function", X)
def cached_on_a_tensor(x):
    return x + cached(x)


@breaks("exception", X, raises=True)
def raises(x):
    y = x + 1
    raise ValueError(y.shape)


@breaks("bare-raise", X, raises=True)
def reraises(x):
    raise


@breaks("graph-break", X)
def asked_for(x):
    y = x + 1
    minitorch2.graph_break()
    return y * 2


@breaks("disabled", X)
def calls_a_disabled_function(x):
    return left_to_python(x) + 1


@minitorch2.disable
def left_to_python(x):
    return x.sin()


@breaks("skip-frame", X)
def skips(x):
    minitorch2.skip_frame()
    return x + 1


def never(x):
    return x.sin()


minitorch2.disallow_in_graph(torch.erfinv)


@breaks("disallowed", X)
def calls_what_is_disallowed(x):
    return torch.erfinv(x + 1)


@minitorch2.assume_constant_result
def constant(x):
    return 3


@breaks("constant-result-argument", X)
def constant_of_a_tensor(x):
    return x + constant(x)


@breaks("warning", X)
def warning_for_the_caller(x):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("deprecated", stacklevel=2)
    return x + 1


@whole("warning", X)
def warning_for_this_line(x):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("deprecated", stacklevel=1)
    return x + 1


@breaks("recursion", X)
def deep_recursion(x):
    return depth(x, 210)


@breaks("import", X)
def imports(x):
    import zipapp

    return x + len(zipapp.__name__)


@whole("import", X)
def imported_before(x):
    return x + len(json.__name__)


@breaks("signature", X)
def signature_of_an_object(x):
    return x + len(inspect.signature(functools.partial(depth, x)).parameters)


@breaks("logging", X)
def logged(x):
    y = x + 1
    logging.getLogger("tests").critical("a message")
    return y * 2


def numbers():
    try:
        yield 1
    finally:
        print(end="")


@breaks("generator", X)
def generator_left_inside_try(x):
    unfinished = numbers()
    return x + next(unfinished)


@breaks("exception-class", X)
def group_of_exceptions(x):
    try:
        raise ExceptionGroup("both", [ValueError(1)])
    except ExceptionGroup as group:
        return x + len(group.exceptions)


@breaks("instruction", X)
def except_star(x):
    try:
        raise ValueError(1)
    except* ValueError:
        x = x + 1
    return x


class Shift:
    amount: int = 2


@breaks("class-statement", X)
def class_that_becomes_a_data_class(x):
    return x + dataclasses.dataclass(Shift)().amount


@whole("class-statement", X)
def data_class_made_inside(x):
    @dataclasses.dataclass
    class Shift:
        amount: int = 2

    return x + Shift().amount


def object_of(x):
    return object()


minitorch2.allow_in_graph(object_of)


@breaks("allowed-result", X)
def allowed_function_gives_an_object(x):
    return x + 1, object_of(x)


_LINEAR = torch.nn.Linear(3, 3)


def linear(x):
    return _LINEAR(x)


minitorch2.allow_in_graph(linear)


@breaks("hidden-parameter", X)
def allowed_function_has_a_parameter(x):
    return linear(x + 1)


@breaks("recompile-limit", calls=[(X, [n * 1j]) for n in range(10)])
def another_constant_at_each_call(x, items):
    return x + items[0]


@breaks("too-long", X, within=lambda: mock.patch.object(frame_evaluator, "MOST_STEPS", 1000))
def runs_for_a_million_instructions(x):
    for i in range(1_000_000):
        x = x + i % 2
    return x


@breaks("unknown-truth", X)
def whether_the_caller_handles_an_exception(x):
    y = x + 1
    return y * 2 if sys.exc_info()[1] else y


@breaks("reconstruct", X)
def traceback_that_lives_on(x):
    y = x + 1
    try:
        raise ValueError
    except ValueError as error:
        return y, error.__traceback__
