"""Kernels are compiled in threads: the same code, the same errors, and nothing is left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
import torch

import minitorch2
from minitorch2 import cache, config, stages
from minitorch2.errors import BackendError
from minitorch2.native.kernels import linking, runtime
from minitorch2.native.kernels.runtime import KernelSource, begin_kernel, load_kernel
from minitorch2.native.llvm import emission, machine_code
from minitorch2.native.llvm.emission import Emission

VALUES = ["exp(x)", "x * x + float32(1.0)", "tanh(x) / x", "sqrt(x)", "sin(x) - x"]


def source(value="exp(x)", name="kernel"):
    text = f"""
def {name}(lo, hi, in_ptr0, out_ptr0, error):
    for i in range(lo, hi):
        x = in_ptr0[i]
        out_ptr0[i] = {value}
    return 0
"""
    return KernelSource(name, text, ("float32", "float32"), 0, 1000)


def module_of(value):
    return linking.link_text(source(value).text, ("float32", "float32"), 0, "entry")


def emissions():
    return [each for each in threading.enumerate() if each.name == "minitorch2 emission"]


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Four cores, an empty cache folder, and a process that has forgotten its kernels."""
    monkeypatch.setattr(emission, "cores", lambda: 4)
    monkeypatch.setattr(runtime, "_ENTRIES", {})
    monkeypatch.setattr(runtime, "_BEGUN", {})
    with config.patch(cache_dir=str(tmp_path / "cache")):
        yield


def test_threads_emit_what_one_thread_does(fresh):
    expected = []
    for value in VALUES:
        module = module_of(value)
        machine_code.optimize(module)
        expected.append(machine_code.emit_object(module))
    for _ in range(4):
        at_once = [Emission(module_of(value)) for value in VALUES * 2]
        assert [each.object_code() for each in at_once] == expected * 2


@pytest.mark.parametrize("cores", [1, 4])
def test_threads_serve_where_there_are_cores_and_end(fresh, monkeypatch, cores):
    monkeypatch.setattr(emission, "cores", lambda: cores)
    begun = [Emission(module_of(value)) for value in VALUES]
    assert bool(emissions()) == (cores > 1)
    for each in begun:
        each.object_code()
    emission._finish()
    assert not emissions()


def test_a_thread_that_cannot_start_is_done_without(fresh, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Emission(module_of("exp(x)")).object_code()


def test_each_kernel_of_a_graph_is_compiled_once(fresh, monkeypatch):
    """What the wrapper's text says is what was begun: it used to differ by a line break."""
    made = []
    monkeypatch.setattr(runtime, "Emission", lambda module: made.append(0) or Emission(module))

    def program(x):
        return (x.exp() + 1).sum(0), x.cumsum(1).tanh(), (x * 2).sort().values

    with stages.collect() as log:
        minitorch2.compile(program)(torch.randn(30, 40))
    assert len(made) == log.counts["kernels_compiled"] > 1
    assert not runtime._BEGUN


def test_statistics_of_a_kernel_that_was_begun(fresh):
    kernels, disk = runtime.STATISTICS, cache.STATISTICS["kernel"]
    before = kernels.compiled, kernels.shared, disk.misses, kernels.compile_seconds
    begin_kernel(source())
    begin_kernel(source())
    kernel = load_kernel(source())
    begin_kernel(source(name="another"))
    load_kernel(source(name="another"))
    assert (kernels.compiled, kernels.shared, disk.misses) == tuple(n + 1 for n in before[:3])
    assert kernels.compile_seconds > before[3]
    x, y = torch.randn(5), torch.zeros(5)
    kernel(5, x, y)
    torch.testing.assert_close(y, x.exp())


def test_errors_of_the_front_end_and_of_threads_reach_the_caller(fresh, monkeypatch):
    with pytest.raises(BackendError, match="kernel does not compile"):
        begin_kernel(source("nosuchfunction(x)"))

    def refuse(*arguments):
        raise RuntimeError("LLVM says no")

    monkeypatch.setattr(emission, "without_lock", lambda name: refuse)
    begin_kernel(source())
    with pytest.raises(BackendError, match="does not compile: LLVM says no"):
        load_kernel(source())


def test_a_function_that_is_missing_is_found_before_it_is_linked(fresh):
    module, _ = machine_code.parse_alone("""
        declare void @no_such_symbol()
        define void @f() {
            call void @no_such_symbol()
            ret void
        }""")
    with pytest.raises(BackendError, match="no_such_symbol"):
        Emission(module).object_code()


def test_an_interrupted_wait_can_be_repeated(fresh, monkeypatch):
    may_go_on = threading.Event()
    whole = Emission._emit
    monkeypatch.setattr(Emission, "_emit", lambda self: may_go_on.wait(30) and whole(self))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_kernel(source())
    finally:
        signal.signal(signal.SIGALRM, before)
        may_go_on.set()
    load_kernel(source())


def program(text):
    """Run a program beside this test's functions, with an empty cache."""
    start = """
        import os, sys, tempfile
        os.environ["MINITORCH2_CACHE_DIR"] = tempfile.mkdtemp()
        from tests.unit.codegen.test_emission import *
        emission.cores = lambda: 4
    """
    text = textwrap.dedent(start) + textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_process_may_end_while_threads_compile():
    done = program("""
        for value in VALUES:
            begin_kernel(source(value))
        assert emissions()
    """)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_compiles_after_a_fork():
    done = program("""
        for value in VALUES:
            begin_kernel(source(value))
        assert emissions()
        child = os.fork()
        for value in (*VALUES, "x + x"):
            load_kernel(source(value))
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_in_garbage_cycles_die_before_their_contexts():
    """LLVM's context was freed before its module when an exception's traceback held both."""
    alive = []
    for _ in range(20):
        cycle = [machine_code.parse_alone("define void @f() { ret void }")]
        alive.append(weakref.ref(cycle[0][0]))
        cycle.append(cycle)
    del cycle
    gc.collect()
    assert [found() for found in alive] == [None] * 20
