"""Modules in files: ours run in torch.jit, torch.jit's run here, without their source."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from minitorch2 import jit
from minitorch2.errors import ArchiveError
from minitorch2.script.archive.read_code import read_code


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.sizes = [1, 2]
        self.table = {"a": 1.5}

    def forward(self, x, count: int, bias: torch.Tensor | None = None):
        results = [x]
        for size in self.sizes:
            x = self.linear(x) + size
        while bool(x.abs().sum() < 100):
            x = x * 2
            if bool(x.max() > 50):
                break
        for i in range(count):
            if i == 3:
                continue
            results.append(x + i * self.table["a"])
        if bias is not None:
            x = x + bias
        return x, torch.stack(results)


class Optionals(nn.Module):
    """A name that is None before a loop, and an exit behind which it has a narrower type."""

    def forward(self, x, count: int):
        last: torch.Tensor | None = None
        seen: int | None = None
        for i in range(count):
            last = x if last is None else last + x
            if i > 2:
                break
            seen = i
        assert last is not None
        return last, 0 if seen is None else seen


MODULES = [
    (nn.ModuleList([Optionals()])[0], (torch.randn(2, 3), 5)),
    (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4)), (torch.randn(2, 3),)),
    (nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)), (torch.randn(2, 2, 5, 5),)),
    (nn.Embedding(5, 3), (torch.tensor([1, 4]),)),
    (nn.ModuleList([Loops()])[0], (torch.randn(2, 3), 5)),
    (nn.Dropout(0.5), (torch.ones(3),)),
    (nn.GELU(), (torch.randn(3),)),  # torch.jit puts the version of its archive in another place
]


def saved(save, module):
    file = io.BytesIO()
    save(module, file)
    return io.BytesIO(file.getvalue())


@pytest.mark.parametrize(("module", "inputs"), MODULES)
def test_files_of_ours_run_here_and_in_torch_jit(module, inputs):
    module = module.eval()
    expected = module(*inputs)
    file = saved(jit.save, jit.script(module))
    torch.testing.assert_close(jit.load(file)(*inputs), expected)
    file.seek(0)
    theirs = torch.jit.load(file)
    torch.testing.assert_close(theirs(*inputs), expected)
    names = [name for name, _ in module.named_parameters()]
    assert [name for name, _ in theirs.named_parameters()] == names


@pytest.mark.parametrize(("module", "inputs"), MODULES)
def test_files_of_torch_jit_run_here(module, inputs):
    module = module.eval()
    loaded = jit.load(saved(torch.jit.save, torch.jit.script(module)))
    torch.testing.assert_close(loaded(*inputs), module(*inputs))
    assert set(loaded.state_dict()) == set(module.state_dict())


def test_code_is_read_back_as_an_equal_graph():
    def f(x, n: int, names: list[str]):
        y = x
        for i in range(n):
            y = y * 2 if i > 1 else y + 1.5
        return y, len(names)

    function = jit.script(f)
    again = read_code(function.code)
    assert again.code == function.code
    assert again(torch.ones(2), 3, [])[0].equal(function(torch.ones(2), 3, [])[0])


def test_a_file_is_loaded_where_its_source_is_not(tmp_path):
    path = tmp_path / "loops.pt"
    module = Loops()
    jit.save(jit.script(module), path)
    call = f"minitorch2.jit.load({str(path)!r})(torch.ones(1, 3), 2)"
    program = f"import minitorch2, torch; print({call}[1].tolist())"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert Path(path).exists()
    found = torch.tensor(eval(result.stdout))
    torch.testing.assert_close(found, module(torch.ones(1, 3), 2)[1].detach())


def test_what_calls_python_cannot_be_saved():
    class Talks(nn.Module):
        @jit.ignore
        def speak(self, x: torch.Tensor) -> torch.Tensor:
            return x

        def forward(self, x):
            return self.speak(x)

    with pytest.raises(ArchiveError, match="Python"):
        saved(jit.save, jit.script(Talks()))
