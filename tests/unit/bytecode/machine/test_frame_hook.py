"""The frame hook: what is asked, what is answered, and that nothing else changes."""

import functools
import gc
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref

import pytest

from minitorch2.native.cpython.frame_hook import FrameHook, disabled, run_apart, skip, unskip


def answering(table, seen=None):
    """A hook that answers calls of the functions in a table with another function's result."""

    def callback(function, arguments):
        if seen is not None:
            seen.append((function.__name__, arguments))
        other = table.get(function)
        return None if other is None else functools.partial(other, *arguments)

    for other in table.values():
        if hasattr(other, "__code__"):
            skip(other.__code__)
    return FrameHook(callback)


def add(a, b):
    return a + b


def twice(a):
    return a * 2


def caller(x):
    return add(x, 1), add(x, 2)


def test_frames_are_seen_with_their_arguments():
    seen = []
    with answering({}, seen).enabled():
        assert caller(5) == (6, 7)
    assert seen == [("caller", (5,)), ("add", (5, 1)), ("add", (5, 2))]
    caller(1)
    assert len(seen) == 3


def test_answers_replace_results():
    hook = answering({add: lambda a, b: ("answer", a, b)})
    with hook.enabled():
        assert caller(5) == (("answer", 5, 1), ("answer", 5, 2))
        assert list(map(add, [1], [2])) == [("answer", 1, 2)]  # called from C
        assert functools.reduce(add, [1, 2, 3]) == ("answer", ("answer", 1, 2), 3)
    assert caller(5) == (6, 7)


def every_kind(a, /, b, c=3, *d, e, f=6, **g):
    return a


def test_every_kind_of_parameter():
    hook = answering({every_kind: lambda *values: values})
    with hook.enabled():
        assert every_kind(1, 2, e=5) == (1, 2, 3, 5, 6, (), {})
        assert every_kind(1, 2, 30, 40, e=5, f=60, x=7) == (1, 2, 30, 5, 60, (40,), {"x": 7})


def test_cells_are_plain_values_and_free_variables_in_the_closure():
    free = 10

    def function(a):
        def inner():
            return a, free

        return inner

    def answer(function, a):
        return a, function.__closure__[0].cell_contents

    skip(answer.__code__)
    hook = FrameHook(lambda f, args: functools.partial(answer, f, *args) if f is function else None)
    with hook.enabled():
        assert function(1) == (1, 10)
    assert function(1)() == (1, 10)


def test_functions_without_local_slots():
    def function():
        return len("abc")

    with answering({function: lambda: "answer"}).enabled():
        assert [function() for _ in range(3)] == ["answer"] * 3


def test_many_local_slots():
    space = {}
    names = [f"v{i}" for i in range(300)]
    exec(f"def f({', '.join(names)}): return len([v0])", space)
    with answering({space["f"]: lambda *values: sum(values)}).enabled():
        assert space["f"](*range(300)) == sum(range(300))


def test_generators_and_coroutines_run_as_they_are():
    def generator(n):
        for i in range(n):
            yield add(i, 1)

    async def coroutine(n):
        return add(n, 1)

    seen = []
    with answering({add: lambda a, b: -a}, seen).enabled():
        assert list(generator(3)) == [0, -1, -2]
        try:
            coroutine(4).send(None)
        except StopIteration as stopped:
            result = stopped.value
    assert result == -4
    assert {name for name, _ in seen} == {"add"}


def test_class_bodies_run_as_they_are():
    seen = []
    with answering({}, seen).enabled():

        class Made:
            x = add(1, 2)

    assert Made.x == 3
    assert seen == [("add", (1, 2))]


def test_skipped_code_is_not_asked_about():
    def function(a):
        return twice(a)

    seen = []
    skip(function.__code__)
    with answering({}, seen).enabled():
        assert function(2) == 4
    assert seen == [("twice", (2,))]
    unskip(function.__code__)
    with answering({}, seen).enabled():
        function(2)
    assert len(seen) == 3


def test_hook_is_off_while_the_callback_thinks():
    seen = []

    def callback(function, arguments):
        seen.append(function.__name__)
        caller(1)

    with FrameHook(callback).enabled():
        add(1, 2)
    assert seen == ["add"]


def test_hook_is_on_while_the_answer_is_computed():
    seen = []

    def answer(x):
        return caller(x)

    hook = answering({twice: answer, add: lambda a, b: a * b}, seen)
    with hook.enabled():
        assert twice(7) == (7, 14)
        assert add(2, 3) == 6
    assert [name for name, _ in seen] == ["twice", "caller", "add", "add", "add"]


def test_an_answers_own_frame_is_asked_about():
    seen = []
    inner = answering({}, seen)
    unskipped = FrameHook(
        lambda f, args: (
            (seen.append((f.__name__, args)), functools.partial(add, *args, 1))[1]
            if f is twice
            else seen.append((f.__name__, args))
        )
    )
    assert inner is not unskipped
    with unskipped.enabled():
        assert twice(7) == 8
    assert seen == [("twice", (7,)), ("add", (7, 1))]


def test_recursion():
    def count(n):
        return 0 if n == 0 else 1 + count(n - 1)

    hook = FrameHook(lambda f, args: functools.partial(again, *args) if f is count else None)

    def again(n):
        return 0 if n == 0 else 2 + count(n - 1)

    skip(again.__code__)
    with hook.enabled():
        assert count(50) == 100


def test_nested_contexts_restore_what_was():
    outer_seen, inner_seen = [], []
    outer, inner = answering({}, outer_seen), answering({}, inner_seen)
    with outer.enabled():
        add(1, 1)
        with inner.enabled():
            add(2, 2)
            with disabled():
                add(3, 3)
            add(4, 4)
        add(5, 5)
    add(6, 6)
    assert [args[0] for _, args in outer_seen] == [1, 5]
    assert [args[0] for _, args in inner_seen] == [2, 4]


def test_other_threads_are_not_hooked():
    seen = []
    results = []
    with answering({add: lambda a, b: "answer"}, seen).enabled():
        thread = threading.Thread(target=lambda: results.append(add(1, 2)))
        thread.start()
        thread.join()
        results.append(add(1, 2))
    assert results == [3, "answer"]
    assert seen.count(("add", (1, 2))) == 1


def test_threads_have_hooks_of_their_own():
    rounds, wrong = 300, []

    def work(mark):
        hook = answering({add: lambda a, b: (mark, a, b)})
        for i in range(rounds):
            with hook.enabled():
                if caller(i) != ((mark, i, 1), (mark, i, 2)):
                    wrong.append(mark)
            if caller(i) != (i + 1, i + 2):
                wrong.append(-mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_exceptions_of_answers_look_like_the_functions_own():
    def fails(a):
        raise ValueError(a)

    def function(a):
        try:
            return add(a, 1)
        except ValueError as error:
            return error

    hook = answering({add: lambda a, b: fails(a)})
    with hook.enabled():
        error = function("x")
    assert error.args == ("x",)
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names == ["function", "<lambda>", "fails"]
    assert error.__context__ is None


def test_exceptions_know_the_one_being_handled():
    def fails(a):
        raise ValueError(a)

    skip(fails.__code__)
    hook = FrameHook(lambda f, args: functools.partial(fails, *args) if f is twice else None)
    with hook.enabled(), pytest.raises(ValueError) as caught:
        try:
            1 / 0
        except ZeroDivisionError:
            twice("x")
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert sys.exc_info() == (None, None, None)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, StopIteration, RecursionError])
def test_any_exception_passes(kind):
    def fails(a):
        raise kind(a)

    with answering({twice: fails}).enabled(), pytest.raises(kind):
        twice(1)


def test_exceptions_of_the_callback_reach_the_caller():
    def callback(function, arguments):
        if function is add:
            raise LookupError("thinking failed")

    with FrameHook(callback).enabled():
        with pytest.raises(LookupError, match="thinking failed"):
            caller(1)
        assert twice(2) == 4


def test_references_are_exact():
    def function(a, *b, c=None, **d):
        return [a]

    value = object()
    hook = answering({function: lambda a, c, b, d: a})
    failing = answering({function: lambda a, c, b, d: 1 / 0})
    gc.collect()
    before = sys.getrefcount(value), len(gc.get_objects())
    with hook.enabled():
        for _ in range(10_000):
            function(value, value, c=value, d=value)
    with failing.enabled():
        for _ in range(1000):
            try:
                function(value, value)
            except ZeroDivisionError:
                pass
    gc.collect()
    assert sys.getrefcount(value) == before[0]
    assert len(gc.get_objects()) - before[1] < 50


def test_code_and_results_die():
    class Thing:
        pass

    def make():
        def function(a):
            return [a]

        return function

    function, thing = make(), Thing()
    code = weakref.ref(function.__code__)
    result = weakref.ref(thing)
    with answering({function: lambda a: a}).enabled():
        assert function(thing) is thing
    exec("def other(a): return [a]", space := {})
    with FrameHook(lambda f, args: None).enabled():
        space["other"](1)
    other = weakref.ref(space["other"].__code__)
    del thing, space
    gc.collect()
    assert result() is None
    assert other() is None
    assert code() is not None


def test_trace_functions_see_lines_and_are_not_hooked():
    events, seen = [], []

    def helper(event):
        events.append(event)

    def trace(frame, event, _):
        if frame.f_code.co_name in ("add", "caller", "twice"):
            helper((frame.f_code.co_name, event, sorted(frame.f_locals)))
        return trace

    hook = answering({add: lambda a, b: "answer"}, seen)
    previous = sys.gettrace()
    with hook.enabled():
        sys.settrace(trace)
        try:
            result = caller(1)
        finally:
            sys.settrace(previous)
    assert result == ("answer", "answer")
    assert {name for name, _ in seen} == {"caller", "add"}
    assert ("caller", "call", ["x"]) in events
    assert ("caller", "return", ["x"]) in events
    assert ("add", "return", ["a", "b"]) in events


def run_script(text):
    """Runs a program in a process of its own, so that a crash is a failure like any other."""
    found = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


PREAMBLE = """
import functools, sys, threading, time
from minitorch2.native.cpython.frame_hook import FrameHook, disabled, skip
def add(a, b):
    return a + b
def answer(a, b):
    return -1
skip(answer.__code__)
hook = FrameHook(lambda f, args: functools.partial(answer, *args) if f is add else None)
"""


def script(text):
    return PREAMBLE + textwrap.dedent(text)


def test_deep_recursion_ends_in_an_exception():
    printed = run_script(
        script("""
        def deep(n):
            return deep(n + 1)
        def deeper(n):
            return deep(n + 1)
        skip(deeper.__code__)
        hook = FrameHook(lambda f, args: functools.partial(deeper, *args) if f is deep else None)
        with hook.enabled():
            try:
                deep(0)
            except RecursionError:
                print("recursion error")
        print(add(1, 2))
        """)
    )
    assert printed == "recursion error\n3\n"


def test_leaving_the_interpreter_while_enabled():
    assert (
        run_script(
            script("""
            import atexit
            atexit.register(lambda: print("exit", add(1, 2)))
            context = hook.enabled()
            context.__enter__()
            print(add(1, 2))
            """)
        )
        == "-1\nexit -1\n"
    )


def test_daemon_thread_enabled_at_exit():
    printed = run_script(
        script("""
        started = threading.Event()
        def work():
            with hook.enabled():
                started.set()
                while True:
                    add(1, 2)
        threading.Thread(target=work, daemon=True).start()
        started.wait()
        time.sleep(0.05)
        print(add(1, 2))
        """)
    )
    assert printed == "3\n"


def test_more_threads_than_rows_is_an_error_and_no_crash():
    printed = run_script(
        script("""
        from minitorch2.native.cpython.errors import UnsupportedPythonError
        from minitorch2.native.cpython import frame_hook
        barrier = threading.Barrier(frame_hook.MOST_THREADS + 3)
        outcomes = []
        def work():
            barrier.wait()
            try:
                with hook.enabled():
                    outcomes.append(add(1, 2))
                    time.sleep(1)
            except UnsupportedPythonError:
                outcomes.append("refused")
        threads = [threading.Thread(target=work) for _ in range(frame_hook.MOST_THREADS + 3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with hook.enabled():
            refused, ran = outcomes.count("refused"), outcomes.count(-1)
            print(refused <= 3, ran >= frame_hook.MOST_THREADS, add(1, 2))
        """)
    )
    assert printed == "True True -1\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_monitoring_callbacks_are_not_hooked():
    printed = run_script(
        script("""
        monitoring = sys.monitoring
        events = []
        def note(code, *rest):
            events.append(code.co_name)
            if code.co_name == "caller":
                events.append(add(1, 2))  # runs as it is inside a callback
        def caller():
            return add(4, 5)
        monitoring.use_tool_id(1, "test")
        monitoring.register_callback(1, monitoring.events.PY_START, note)
        monitoring.set_events(1, monitoring.events.PY_START)
        with hook.enabled():
            result = caller()
        monitoring.set_events(1, 0)
        print(result, 3 in events, -1 in events, events.count("answer"))
        """)
    )
    assert printed == "-1 True False 1\n"


def test_debugger_may_look_at_an_answered_closure_frame():
    printed = run_script(
        script("""
        free = 5
        def outer():
            cell = 6
            def inner(a):
                if a: x = cell
                return lambda: (a, cell)
            return inner
        inner = outer()
        hook = FrameHook(lambda f, args: functools.partial(answer, 1, 2) if f is inner else None)
        shown = []
        def trace(frame, event, _):
            if frame.f_code.co_name == "inner":
                shown.append(dict(frame.f_locals))
            return trace
        with hook.enabled():
            sys.settrace(trace)
            result = inner(1)
            sys.settrace(None)
        print(result, all(s["a"] == 1 for s in shown), len(shown) > 0)
        """)
    )
    assert printed == "-1 True True\n"


def test_another_frame_evaluator_is_put_back():
    printed = run_script(
        script("""
        from minitorch2.native.cpython.frame_layout import get_frame_evaluator, get_interpreter
        before = get_frame_evaluator(get_interpreter())
        with hook.enabled():
            during = get_frame_evaluator(get_interpreter())
        print(before == get_frame_evaluator(get_interpreter()), before != during)
        """)
    )
    assert printed == "True True\n"


def test_unknown_interpreters_are_refused_before_any_native_code():
    printed = run_script("""
        import sys
        from minitorch2.native.cpython.errors import UnsupportedPythonError
        from minitorch2.native.cpython import frame_hook
        sys.version_info = (3, 99, 0)
        try:
            frame_hook.FrameHook(lambda f, a: None)
        except UnsupportedPythonError as error:
            print(error.code)
        """)
    assert printed == "unsupported-python\n"


def test_no_torch_is_imported():
    assert run_script(script("print('torch' in sys.modules)")) == "False\n"


def test_what_runs_apart_is_silent_with_all_that_it_calls():
    seen = []

    def callback(function, arguments):
        seen.append(function.__name__)
        if function is caller:
            run_apart(function.__code__)

    try:
        with FrameHook(callback).enabled():
            assert caller(5) == (6, 7)  # the frame that was asked about runs apart at once
            assert add(1, 2) == 3
            assert caller(6) == (7, 8)
            assert [*map(twice, [1])] == [2]
        assert seen == ["caller", "add", "twice"]
    finally:
        unskip(caller.__code__)


def test_an_exception_out_of_what_runs_apart_leaves_the_hook_on():
    seen = []

    def fails():
        raise ValueError("as expected")

    def callback(function, arguments):
        seen.append(function.__name__)
        if function is fails:
            run_apart(function.__code__)

    with FrameHook(callback).enabled():
        for _ in range(2):
            try:
                fails()
            except ValueError:
                add(1, 2)
    assert seen == ["fails", "add", "add"]
