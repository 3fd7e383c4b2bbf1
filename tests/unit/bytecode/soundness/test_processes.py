"""Forks, interpreter exit, flags of the interpreter, and interpreters that cannot be hooked."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch

import minitorch2
from tests.unit.bytecode.capturing import capture
from tests.unit.bytecode.soundness.processes import run

X = torch.tensor([1.0, -2.0, 3.0])
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@forks
def test_children_run_kernels_and_compile_more():
    """A child waited forever for the threads of its parent's OpenMP pool."""
    printed = run(
        """
        torch.set_num_threads(2)
        big = torch.randn(400_000)
        compiled = minitorch2.compile(lambda x: (x.sin() * 2 + x.cos()).exp())
        wanted = compiled(big)
        child = os.fork()
        if child == 0:
            right = torch.equal(compiled(big), wanted)
            more = minitorch2.compile(lambda x: x.cos() * 3, options={"threads": 2})
            right &= torch.allclose(more(big), big.cos() * 3)
            os._exit(0 if right else 1)
        print(os.waitpid(child, 0)[1])
        """,
        OMP_NUM_THREADS="2",
    )
    assert printed.split() == ["0"]


@forks
def test_fork_while_another_thread_compiles():
    printed = run("""
        inside, go_on = threading.Event(), threading.Event()
        from minitorch2.foundation.compile_lock import COMPILING
        def hold():
            with COMPILING:
                inside.set()
                go_on.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.allclose(minitorch2.compile(program)(X), program(X)) else 1)
        print(os.waitpid(child, 0)[1])
        go_on.set()
    """)
    assert printed.split() == ["0"]


@forks
@pytest.mark.parametrize(
    "lock",
    [
        "llvm.ffi.lib._lock",  # of LLVM
        "dispatcher_of(compiled).cache.turn",  # of who compiles the same function
        "stages._TOTALS_LOCK",
    ],
)
def test_fork_while_another_thread_has_a_lock(lock):
    """The child waited for a thread that it does not have."""
    printed = run(f"""
        import signal
        import llvmlite.binding as llvm
        from minitorch2 import stages
        from minitorch2.bytecode.dispatch import dispatcher_of
        compiled = minitorch2.compile(program)
        inside = threading.Event()
        def hold():
            with {lock}:
                inside.set()
                time.sleep(0.5)
        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if torch.allclose(compiled(X), program(X)) else 1)
        print(os.waitpid(child, 0)[1])
    """)
    assert printed.split() == ["0"]


def test_data_loaders_and_executors():
    printed = run("""
        import concurrent.futures, multiprocessing
        class Data(torch.utils.data.Dataset):
            transform = staticmethod(minitorch2.compile(program))
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return self.transform(X + i)
        data = Data()
        data[0]
        batches = list(torch.utils.data.DataLoader(data, batch_size=4, num_workers=2))
        print(torch.allclose(torch.cat(batches), torch.stack([program(X + i) for i in range(8)])))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(data.transform, [X + i for i in range(8)]))
        print(torch.allclose(torch.stack(rows), torch.cat(batches)))
    """)
    assert printed.split() == ["True", "True"]


def test_spawned_processes(tmp_path):
    (tmp_path / "spawning.py").write_text(
        "import multiprocessing, torch, minitorch2\n"
        "@minitorch2.compile\n"
        "def f(x):\n"
        "    return x.sin() + 1\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        x = torch.ones(3)\n"
        "        print(torch.equal(pool.apply(f, [x]), f(x)))\n"
    )
    found = subprocess.run(
        [sys.executable, str(tmp_path / "spawning.py")], capture_output=True, text=True, timeout=90
    )
    assert found.stdout.split() == ["True"], found.stderr


@capture
def decorated(x):
    return x.sin() + 1


def test_copies_and_pickles():
    """A decorated function is pickled by its name, as functions are; modules with their weights."""
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    module = capture(torch.nn.Linear(3, 3))
    pickled = pickle.dumps(minitorch2.compile(torch.nn.Linear(3, 3)))
    assert pickle.loads(pickled)(X).shape == (3,)
    assert torch.equal(copy.deepcopy(module)(X), module(X))


@pytest.mark.parametrize(
    "text",
    [
        "import atexit; atexit.register(lambda: print(compiled(X).shape)); compiled(X)",
        pytest.param(
            "import atexit; atexit.register(lambda: print(minitorch2.compile(program)(X).shape))",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "threading.Thread(target=lambda: (time.sleep(0.2), print(compiled(X).shape))).start()",
            marks=pytest.mark.slow,
        ),
        """
        def late():
            time.sleep(0.2)
            print(minitorch2.compile(lambda x: x.exp())(X).shape)
        threading.Thread(target=late).start()
        """,
    ],
)
def test_calls_and_compilations_at_exit(text):
    preamble = "compiled = minitorch2.compile(program)\n"
    assert "torch.Size([3])" in run(preamble + textwrap.dedent(text))


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ([], {"PYTHONMALLOC": "debug"}),
        pytest.param(["-O"], {}, marks=pytest.mark.slow),
        (["-OO"], {}),
        pytest.param(["-X", "dev"], {}, marks=pytest.mark.slow),
        pytest.param(["-X", "importtime"], {}, marks=pytest.mark.slow),
    ],
)
def test_flags_of_the_interpreter(flags, variables):
    text = "print(torch.equal(minitorch2.compile(program, backend='eager')(X), program(X)))"
    assert run(text, *flags, **variables).split() == ["True"]


def test_without_the_hook():
    """Compiled functions and what follows a break are captured; called functions run in Python."""
    printed = run("""
        import warnings
        from minitorch2.native.cpython import frame_hook
        from minitorch2.native.cpython.errors import UnsupportedPythonError
        def machinery():
            raise UnsupportedPythonError("a test says so")
        frame_hook.machinery = machinery
        graphs = []
        def backend(module, inputs):
            graphs.append(module)
            return module
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(2):
                compiled = minitorch2.compile(program, backend=backend)
                assert torch.equal(compiled(X), program(X))
                assert torch.equal(compiled(X), program(X))
        print(len(graphs), len(found), "a test says so" in str(found[0].message))
    """)
    assert printed.split() == ["4", "1", "True"]


def test_other_interpreters_and_free_threading_are_refused():
    printed = run("""
        import sysconfig
        import _xxsubinterpreters as interpreters
        path = "minitorch2.native.cpython.interpreter_api"
        call = f"import sys; sys.path[:] = {sys.path!r}; import {path}; {path}.check_threads()"
        try:
            interpreters.run_string(interpreters.create(isolated=False), call)
        except interpreters.RunFailedError as error:
            print("refused:", "main interpreter" in str(error))
        get = sysconfig.get_config_var
        sysconfig.get_config_var = lambda n: 1 if n == "Py_GIL_DISABLED" else get(n)
        try:
            minitorch2.compile(program)
        except Exception as error:
            print("refused:", "global interpreter lock" in str(error))
    """)
    assert printed.split() == ["refused:", "True"] * 2
