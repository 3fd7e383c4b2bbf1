"""Numba compiles the text that the project's own front end compiles, and gives the same bits."""

import runpy
import threading

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.errors import BackendError
from minitorch2.native.kernels import trial
from minitorch2.native.kernels.jit import launch_text
from minitorch2.native.kernels.python_launcher import PythonLauncher
from minitorch2.native.kernels.runtime import KernelSource, join_kernels, load_kernel

X = torch.linspace(-3, 3, 4096).reshape(64, 64)
PROGRAMS = {
    "elementary functions": lambda x: (
        x.exp(),
        x.sin() * x.cos(),
        x.tanh(),
        x.erf(),
        x.abs().log1p(),
    ),
    "rows": lambda x: x.softmax(-1),
    "columns": lambda x: (x.sum(0), x.amax(0), x.var(0)),
    "float16": lambda x: x.half().sigmoid() + 1,
    "bfloat16": lambda x: x.bfloat16().exp(),
    "double": lambda x: x.double().abs().pow(2.5).sqrt(),
    "integers": lambda x: ((x * 100).long() % 7, (x * 100).int() // 3),
    "transposes": lambda x: x.t().contiguous() + 1,
    "scatter": lambda x: torch.zeros(8, 64).index_add(0, torch.arange(64) % 8, x),
    "positions": lambda x: x.argmax(1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_compilers_give_the_same_bits(name):
    results = []
    for compiler in ("minitorch2", "numba"):
        with stages.collect(texts=False) as log:
            fast = minitorch2.compile(
                PROGRAMS[name], fullgraph=True, options={"cpu_compiler": compiler, "cache": False}
            )
            found = fast(X)
        results.append(found if isinstance(found, tuple) else (found,))
        assert log.counts["kernels"] >= 1
    assert all(map(torch.equal, *results))


def test_a_training_step_with_symbolic_sizes():
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
    fast = minitorch2.compile(layer, dynamic=True, options={"cpu_compiler": "numba"})
    for rows in (3, 70):
        x = torch.randn(rows, 8)
        found, expected = fast(x), layer(x)
        torch.testing.assert_close(found, expected)
        gradients = [
            torch.autograd.grad(y.square().sum(), layer.parameters()) for y in (found, expected)
        ]
        torch.testing.assert_close(*gradients)


TEXT = """
def kernel(lo, hi, in_ptr0, out_ptr0, size0, error):
    for i0 in range(lo, hi):
        tmp0 = in_ptr0[i0]
        if (tmp0 < 0) | (tmp0 >= size0):
            error[0] = tmp0
            error[1] = size0
            return 1
        out_ptr0[i0] = 2 * tmp0
    return 0
"""
SOURCE = KernelSource("kernel", TEXT, ("int64", "int64"), 1, grain=100)


@pytest.fixture(params=["numba", "python"])
def launcher(request):
    with config.patch(cpu_compiler=request.param):
        yield load_kernel(SOURCE)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_index_out_of_range_is_raised(launcher, threads):
    before, x = torch.get_num_threads(), torch.arange(1000)
    y = torch.zeros_like(x)
    torch.set_num_threads(threads)
    try:
        launcher(1000, x, y, 1000)
        assert torch.equal(y, 2 * x)
        launcher(0, x, y, 1)
        with pytest.raises(IndexError, match=r"index 999 .* size 999"):
            launcher(1000, x, y.data_ptr(), 999)
    finally:
        torch.set_num_threads(before)


def test_several_kernels_share_a_launch(launcher):
    assert isinstance(launcher, PythonLauncher)
    x, y, z = torch.arange(10), torch.zeros(10, dtype=torch.long), torch.zeros(5, dtype=torch.long)
    join_kernels("both", [launcher, launcher])(10, x, y, 10, 5, x, z, 10)
    assert torch.equal(y, 2 * x) and torch.equal(z, 2 * x[:5])


def test_several_threads_of_python_may_launch(launcher):
    x = torch.arange(1000)
    results = [torch.zeros_like(x) for _ in range(4)]
    threads = [threading.Thread(target=launcher, args=(1000, x, y, 1000)) for y in results]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(torch.equal(y, 2 * x) for y in results)


def test_iterations_are_shared_by_a_parallel_loop():
    assert launch_text(("float32",), 1) == (
        "def launch(n, parts, address0, size0, error):\n"
        "    status = 0\n"
        "    for part in prange(parts):\n"
        "        status += kernel(n * part // parts, n * (part + 1) // parts,"
        " pointer(address0, float32), size0, pointer(error, int64))\n"
        "    return status\n"
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_file_of_a_kernel_runs_alone(dynamic, tmp_path, capsys):
    """It is compared in three ways; a debugger steps through the function of the file."""
    with stages.collect() as log:
        minitorch2.compile(lambda x: x.exp().softmax(-1), dynamic=dynamic)(X)
    (path,) = (path for path in log.write(tmp_path) if path.name.endswith("_kernel.py"))
    assert "__main__" not in log.texts("kernel.py")[0]
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert "Python: " in said and "numba: the same bits as minitorch2" in said
    assert ("8 of 8 iterations" if dynamic else " of 64 iterations") in said


def test_the_file_of_a_wrong_kernel_says_so(tmp_path, monkeypatch):
    with stages.collect() as log:
        minitorch2.compile(lambda x: x + 1)(X)
    (path,) = (path for path in log.write(tmp_path) if path.name.endswith("_kernel.py"))
    monkeypatch.setattr(trial, "load_kernel", lambda source: lambda *arguments: None)
    with pytest.raises(AssertionError, match="not close"):
        runpy.run_path(str(path), run_name="__main__")


def test_a_kernel_that_numba_refuses_is_an_error_with_its_text():
    source = KernelSource("kernel", TEXT.replace("2 * tmp0", "unknown(tmp0)"), ("int64",) * 2, 1, 1)
    with config.patch(cpu_compiler="numba"), pytest.raises(BackendError, match="does not compile"):
        load_kernel(source)
