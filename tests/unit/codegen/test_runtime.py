"""Launchers, sharing of kernels, and the cache on disk."""

import gc
import os
import stat
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import cache, config
from minitorch2.cache import storage
from minitorch2.errors import BackendError
from minitorch2.native.kernels import runtime
from minitorch2.native.kernels.runtime import KernelSource, load_kernel
from tests.unit.work import python_calls

ADD = """def add(lo, hi, in_ptr0, out_ptr0, size0, error):
    for i in range(lo, hi):
        out_ptr0[i] = in_ptr0[i] + float32(size0)
    return 0
"""
CHECKED = """def look_up(lo, hi, in_ptr0, out_ptr0, error):
    for i in range(lo, hi):
        if in_ptr0[i] >= 5:
            error[0], error[1] = in_ptr0[i], 5
            return 1
        out_ptr0[i] = in_ptr0[i]
    return 0
"""


def source(text=ADD, name="add", grain=1000):
    return KernelSource(name, text, ("float32", "float32"), 1, grain)


def run(kernel, n, number=3):
    x, y = torch.randn(n), torch.zeros(n)
    kernel(n, x.data_ptr(), y.data_ptr(), number)
    return x, y


@pytest.mark.parametrize("n", [0, 1, 17, 999, 5000, 100_003])
def test_all_iterations_are_done_once(n):
    x, y = run(load_kernel(source()), n)
    assert torch.equal(y, x + 3)


def test_wrong_arguments_raise():
    kernel = load_kernel(source())
    with pytest.raises(TypeError, match="takes 4 arguments, not 2"):
        kernel(1, 2)
    with pytest.raises(TypeError):
        kernel(0, 1.5, 0, 0)
    with pytest.raises(OverflowError):
        kernel(0, 2**70, 0, 0)


@pytest.mark.parametrize("grain", [1, 10**9])
def test_index_errors_reach_python(grain):
    kernel = load_kernel(KernelSource("look_up", CHECKED, ("int64", "int64"), 0, grain))
    x, y = torch.arange(8), torch.zeros(8, dtype=torch.int64)
    with pytest.raises(IndexError, match=r"index [567] is out of bounds for a dimension of size 5"):
        kernel(8, x.data_ptr(), y.data_ptr())


def test_launchers_do_not_leak_references():
    kernel = load_kernel(source())
    before = gc.get_objects().__len__()
    for _ in range(100):
        run(kernel, 3)
    gc.collect()
    assert len(gc.get_objects()) < before + 50


def test_equal_code_is_compiled_once_whatever_it_is_called():
    load_kernel(source())
    compiled = runtime.STATISTICS.compiled
    load_kernel(
        source(ADD.replace("add", "other").replace("    for", "    # why\n    for"), "other")
    )
    assert runtime.STATISTICS.compiled == compiled


def test_a_launch_calls_no_python_function():
    kernel = load_kernel(source())
    x = torch.randn(16)
    address = x.data_ptr()
    assert python_calls(lambda: kernel(16, address, address, 0)) == 1, "the lambda itself"


# -- the cache on disk -----------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache folder, and a process that has forgotten its kernels."""
    forget(monkeypatch)
    with config.patch(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache" / "kernels"


def forget(monkeypatch):
    monkeypatch.setattr(runtime, "_ENTRIES", {})
    monkeypatch.setattr(storage, "HELD", {})


def test_a_second_process_compiles_nothing(fresh, monkeypatch):
    load_kernel(source())
    forget(monkeypatch)
    compiled = runtime.STATISTICS.compiled
    x, y = run(load_kernel(source()), 100)
    assert torch.equal(y, x + 3)
    assert runtime.STATISTICS.compiled == compiled


def test_a_damaged_entry_is_made_again(fresh, monkeypatch):
    load_kernel(source())
    for path in fresh.iterdir():
        path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    forget(monkeypatch)
    damaged = cache.STATISTICS["kernel"].damaged
    x, y = run(load_kernel(source()), 100)
    assert torch.equal(y, x + 3)
    assert cache.STATISTICS["kernel"].damaged > damaged


def test_entries_are_private(fresh):
    load_kernel(source())
    assert fresh.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in fresh.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    forget(monkeypatch)
    tmp_path.chmod(0o500)
    with config.patch(cache_dir=str(tmp_path / "below")):
        x, y = run(load_kernel(source()), 10)
    assert torch.equal(y, x + 3)


def test_a_file_in_the_way_is_no_error(tmp_path, monkeypatch):
    forget(monkeypatch)
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=str(tmp_path / "file")):
        x, y = run(load_kernel(source()), 10)
    assert torch.equal(y, x + 3)


def test_the_cache_can_be_off(fresh):
    with config.patch(cache=False):
        load_kernel(source())
    assert not fresh.exists()


def test_clear_removes_all(fresh):
    load_kernel(source())
    assert cache.clear() >= 1
    assert not any(fresh.iterdir())


def test_unknown_functions_raise_and_do_not_end_the_process():
    text = ADD.replace("float32(size0)", "nosuchfunction(size0)")
    with pytest.raises(BackendError, match="nosuchfunction"):
        load_kernel(source(text))


@pytest.mark.parametrize("wrong", ["exp(in_ptr0)", "in_ptr0[i] + 'a'", "nosuchfunction(0)"])
def test_a_kernel_that_does_not_compile_names_itself_its_lines_and_its_file(fresh, wrong):
    """Numba's TypingError used to reach the user as it was."""
    line = "# File: model.py:3, code: x + y"
    text = ADD.replace("in_ptr0[i] + float32(size0)", wrong).replace(
        "    for", f"    {line}\n    for"
    )
    with pytest.raises(BackendError, match="the generated kernel add does not compile") as found:
        load_kernel(source(text))
    message = str(found.value)
    assert message.startswith("File: model.py:3, code: x + y\n")
    (path,) = (fresh.parent / "refused").iterdir()
    assert str(path) in message and path.read_text() == text
    assert "Failed in nopython" not in message


def test_missing_symbols_raise():
    import llvmlite.binding as llvm

    from minitorch2.native.llvm import machine_code

    module = llvm.parse_assembly("declare void @no_such_symbol()\ndefine void @f() {\n"
                                 "call void @no_such_symbol()\nret void\n}")  # fmt: skip
    with pytest.raises(BackendError, match="no_such_symbol"):
        machine_code.emit_object(module)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts this system's threads")
def test_kernels_and_torch_share_their_threads():
    """A second pool would have each core run two threads at once."""

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    x = torch.randn(400, 5000)
    (x.exp(), x @ x.t())
    count = threads()
    minitorch2.compile(lambda x: x.exp() + 1)(x)
    assert threads() == count >= 3
    torch.set_num_threads(before)
