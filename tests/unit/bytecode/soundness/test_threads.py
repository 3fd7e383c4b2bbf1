"""Many threads compile, run and forget at once; a backend starts threads; nothing waits forever."""

import sys
import threading

import pytest
import torch

import minitorch2
from tests.unit.bytecode.capturing import capture
from tests.unit.bytecode.soundness.processes import run

X = torch.linspace(-1, 1, 8)


def body(x, k):
    y = (x * k).sin()
    print(end="")
    return y + (x.cos() if torch.is_grad_enabled() else x)


def functions(count):
    """Functions of different code."""
    made = []
    for number in range(count):
        exec(f"def f(x, k): return body(x, k) + {number}", {"body": body, "torch": torch}, ns := {})
        made.append(ns["f"])
    return made


def in_threads(works):
    """Run them all at once; what they raised."""
    errors = []

    def run_one(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run_one, args=(work,)) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"
    return errors


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_eight_threads_compile_run_and_differentiate_while_another_one_resets(backend):
    """Each thread has its own grad mode and autocast; they share functions."""
    pairs = [(f, minitorch2.compile(f, backend=backend)) for f in functions(4)]

    def work(number):
        for turn in range(3):
            for function, compiled in pairs:
                x = (X + number).requires_grad_(bool((number + turn) & 1))
                with (
                    torch.set_grad_enabled(bool(number & 2)),
                    torch.autocast("cpu", enabled=bool(number & 4)),
                ):
                    wanted, given = function(x, 2), compiled(x, 2)
                    torch.testing.assert_close(given, wanted)
                    assert given.requires_grad == wanted.requires_grad
                if wanted.requires_grad:
                    pair = [torch.autograd.grad(y.sum(), x)[0] for y in (given, wanted)]
                    torch.testing.assert_close(*pair)

    def reset():
        for _ in range(20):
            minitorch2.reset()
            threading.Event().wait(0.02)

    assert not in_threads([*[lambda n=n: work(n) for n in range(8)], reset])


def test_options_and_grad_mode_of_one_thread_are_not_anothers():
    compiled = capture(lambda x: (x * 2).requires_grad)
    leaf = X.clone().requires_grad_()
    seen = {}

    def work(enabled):
        with torch.set_grad_enabled(enabled):
            for _ in range(20):
                seen.setdefault(enabled, set()).add(compiled(leaf))

    assert not in_threads([lambda: work(True), lambda: work(False)])
    assert seen == {True: {True}, False: {False}}


def test_a_backend_may_wait_for_threads_that_compile():
    """The lock of the compiler was held while a user's backend ran."""
    printed = run("""
        other = minitorch2.compile(lambda x: x * 2, backend="eager")
        def backend(module, inputs):
            thread = threading.Thread(target=lambda: results.append(other(X)))
            thread.start()
            thread.join()
            return module
        results = []
        print(torch.equal(minitorch2.compile(lambda x: x + 1, backend=backend)(X), X + 1))
        print(torch.equal(results[0], X * 2))
    """)
    assert printed.split() == ["True", "True"]


def test_a_function_compiled_by_two_threads_at_once_gets_one_entry():
    calls = []

    def backend(module, inputs):
        calls.append(module)
        threading.Event().wait(0.2)  # without a lock both threads would be here at the same time
        return module

    compiled = minitorch2.compile(lambda x: x + 1, backend=backend)
    results = []
    assert not in_threads([lambda: results.append(compiled(X))] * 2)
    assert all(torch.equal(result, X + 1) for result in results)
    assert len(calls) == 1
