"""All that this project does with a program, under a default device and under a mode of the user's.

A default device is a function mode of PyTorch: it stands between a program and each of its calls.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch.overrides import TorchFunctionMode

import minitorch2
from minitorch2 import stages


class Passing(TorchFunctionMode):
    """A mode of the user's that changes nothing."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@contextmanager
def set_as_default() -> Iterator[None]:
    torch.set_default_device("cpu")
    try:
        yield
    finally:
        torch.set_default_device(None)


SURROUNDINGS = {
    "set_default_device": set_as_default,
    "with device": lambda: torch.device("cpu"),
    "a mode": Passing,
    "another device": lambda: torch.device("meta"),
}


class Counting(torch.nn.Module):
    """A module that makes tensors of its own, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(3, 4, device="cpu")
        self.register_buffer("calls", torch.zeros(2, device="cpu"))

    def forward(self, x):
        self.calls += 1
        return torch.sin(self.line(x)) + torch.ones(4, device="cpu") * 0.3


def implicit(x):
    y = torch.sin(x) + torch.ones(3)
    return (y * torch.arange(3)).relu() + torch.tensor([1.0, 2.0, 3.0])


def explicit(x):
    y = torch.sin(x) + torch.ones(3, device="cpu")
    return (y * torch.arange(3, device="cpu")).relu() + torch.tensor([1.0, 2.0], device="cpu")[0]


def function():
    """The function that makes tensors on the CPU where no device is told, or a default one."""
    return explicit if torch.get_default_device().type == "meta" else implicit


def signal():
    return torch.linspace(-2, 3, 15, device="cpu").view(5, 3)


def assert_same(call, program):
    with torch.no_grad():
        torch.testing.assert_close(call(signal()), program(signal()))


def exported(folder):
    for program in (function(), Counting()):
        for sizes in (None, {"x": {0: minitorch2.Dim("rows")}}):
            found = minitorch2.export(program, (signal(),), dynamic_shapes=sizes)
            assert_same(found, program)
            found.save(folder / "program")
            assert_same(minitorch2.load(folder / "program"), program)
            minitorch2.package(found, folder / "package")
            assert_same(minitorch2.load(folder / "package"), program)


def exported_by_torch(folder):
    of_torch = torch.export.export(Counting(), (signal(),))
    found = minitorch2.export(of_torch, (signal(),))
    assert_same(found, of_torch.module())


def compiled(folder):
    with stages.collect() as log:
        for program in (function(), Counting()):
            for backend in ("eager", "aot_eager", "numba"):
                fast = minitorch2.compile(program, fullgraph=True, backend=backend)
                assert_same(fast, program)
    assert log.counts["graphs"] == 6


def compiled_by_torch(folder):
    assert_same(torch.compile(function(), backend="minitorch2"), function())


def explained(folder):
    found = minitorch2.explain(Counting())(signal())
    assert found.graph_count == 1 and found.graph_break_count == 0
    assert "<!doctype html>" in found.to_html(folder / "page.html")


def bisected(folder):
    for frontend in ("compile", "lazy", "script", "text", "trace"):
        found = minitorch2.bisect(function(), signal(), path=None, frontend=frontend)
        assert found.difference is None, str(found)


def bisected_and_wrong(folder):
    def backend(module, examples):
        run = minitorch2.lookup_backend("eager")(module, examples)
        names = [str(getattr(node.target, "__name__", "")) for node in module.graph.nodes]
        return run if "sin" not in names else lambda *inputs: tuple(r + 1 for r in run(*inputs))

    found = minitorch2.bisect(function(), signal(), path=folder / "small.py", backend=backend)
    assert found.difference is not None and found.operations[1] <= 2, str(found)
    assert "torch.sin" in (folder / "small.py").read_text()


def deferred(folder):
    for _ in range(3):
        model = Counting()
        with minitorch2.lazily():
            lazy = function()(signal()) + 1
            model(signal()).sum().backward()
        torch.testing.assert_close(lazy, function()(signal()) + 1)
        assert model.line.weight.grad is not None


def scripted(folder):
    for program in (function(), Counting()):
        script = minitorch2.jit.script(program)
        for _ in range(4):
            assert_same(script, program)
    minitorch2.jit.save(script, folder / "archive")
    assert_same(minitorch2.jit.load(folder / "archive"), program)


def traced(folder):
    for program in (function(), Counting()):
        trace = minitorch2.jit.trace(program, (signal(),))
        for _ in range(4):
            assert_same(trace, program)


def replayed(folder):
    minitorch2.save_call(function(), folder / "call", signal())
    assert minitorch2.replay(folder / "call").graph_count == 1


USES = [exported, exported_by_torch, compiled, compiled_by_torch, explained, bisected,
        bisected_and_wrong, deferred, scripted, traced, replayed]  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_a_program_is_what_it_is_without_a_mode(surroundings, use, tmp_path):
    with SURROUNDINGS[surroundings]():
        use(tmp_path)


@pytest.mark.parametrize("surroundings", ["set_default_device", "with device", "another device"])
def test_scripts_have_regions_under_a_default_device(surroundings):
    """Any function mode kept them from being compiled."""
    with SURROUNDINGS[surroundings]():
        script = minitorch2.jit.script(function())
        with stages.collect() as log:
            for _ in range(4):
                assert_same(script, function())
    assert log.counts["script_regions"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_a_script_makes_is_on_the_cpu_under_any_default_device(device):
    """As TorchScript has it, whether its regions are compiled or not."""
    script = minitorch2.jit.script(implicit)
    with torch.device(device):
        x = torch.ones(5, 3, device="cpu")
        found = [script(x).device.type for _ in range(4)]
    assert found == ["cpu"] * 4


@pytest.mark.parametrize("command", ["explore", "explain", "profile", "bisect"])
def test_commands_run_a_script_that_sets_a_default_device(command, tmp_path):
    script = tmp_path / "script.py"
    text = """
        import torch
        import minitorch2

        torch.set_default_device("cpu")
        fast = minitorch2.compile(lambda x: torch.sin(x) + torch.ones(3), fullgraph=True)
        print(fast(torch.zeros(3)).tolist())
    """
    script.write_text(textwrap.dedent(text))
    run = [sys.executable, "-m", "minitorch2", command, str(script)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[1.0, 1.0, 1.0]" in done.stdout


def test_a_program_that_was_exported_under_a_default_device_runs_without(tmp_path):
    with torch.device("cpu"):
        program = minitorch2.export(implicit, (signal(),))
    for surroundings in (nullcontext(), torch.device("meta")):
        x, wanted = signal(), implicit(signal())
        with surroundings:
            torch.testing.assert_close(program(x), wanted)


def test_what_a_mode_changes_is_part_of_the_exported_program():
    class Doubling(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.sin else result

    def program(x):
        return torch.sin(x) + 1

    with Doubling():
        exported, wanted = minitorch2.export(program, (signal(),)), program(signal())
    torch.testing.assert_close(exported(signal()), wanted)
