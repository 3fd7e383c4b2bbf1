"""Where the time of a run goes, by kind."""

import json

import pytest
import torch

import minitorch2
from minitorch2.__main__ import main
from minitorch2.explorer.spending import (
    AROUND,
    COMPILE,
    KERNEL,
    LIBRARY,
    OUTSIDE,
    spending_lines,
    spendings,
)


def profiled(run):
    with torch.profiler.profile() as recorded:
        run()
    return spendings(recorded.events())


def test_kernels_library_calls_and_operators_outside_are_told_apart():
    def f(x, w):
        h = torch.relu(x @ w)
        return (h * h.sigmoid()).sum()

    x, w = torch.ones(64, 32), torch.ones(32, 16, requires_grad=True)
    compiled = minitorch2.compile(f, backend="numba")
    compiled(x, w).backward()

    def run():
        for _ in range(3):
            compiled(x, w).backward()
        x.cos()

    found = profiled(run)
    by_kind = {kind: [s for s in found if s.kind == kind] for kind in (KERNEL, LIBRARY, OUTSIDE)}
    assert all(each.name.startswith("fused_") for each in by_kind[KERNEL])
    assert {each.calls for each in by_kind[KERNEL]} == {3}
    assert "aten::mm" in [each.name for each in by_kind[LIBRARY]]
    assert "aten::cos" in [each.name for each in by_kind[OUTSIDE]]
    around = [each.name for each in found if each.kind == AROUND]
    assert any(name.startswith("minitorch2: ") for name in around)
    assert not [s for s in found if s.kind == COMPILE]


def test_compiling_is_no_time_of_the_run():
    compiled = minitorch2.compile(lambda x: x.sin() + 1, backend="aot_eager")
    found = profiled(lambda: compiled(torch.ones(3)))
    assert [s.kind for s in found if s.seconds == max(s.seconds for s in found)] == [COMPILE]
    assert next(spending_lines(found)).endswith("ms compiling")
    names = [s.name for s in found if s.kind == OUTSIDE]
    assert "aten::sin" not in names  # neither traced nor run outside


def test_profile_command(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.ones(3).cos()\n")
    assert main(["profile", "--json", "-o", str(tmp_path / "t.json"), str(script)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "aten::cos" in [each["name"] for each in found]
    assert (tmp_path / "t.json").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["profile", str(tmp_path / "none.py")])
