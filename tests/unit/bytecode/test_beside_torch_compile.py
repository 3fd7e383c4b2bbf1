"""What the first call of `torch.compile` patches in PyTorch changes no captured program."""

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import torch
import minitorch2

torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
"""
STEP = """
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
assert torch.optim.SGD._init_group.__dict__, "it disables methods of optimizers"
model(torch.ones(1, 2)).sum().backward()
print(minitorch2.explain(optimizer.step, backend="eager")().graph_break_count)
"""
MODULE = """
assert "patched" in torch.nn.Module.__init__.__name__, "it numbers modules"

def loss(x, y):
    return torch.nn.MSELoss()(x, y)

explanation = minitorch2.explain(loss, backend="eager")(torch.ones(2), torch.zeros(2))
print(explanation.graph_break_count)
"""


@pytest.mark.parametrize("program", [STEP, MODULE], ids=["step", "module"])
def test_what_it_patches_is_captured(program):
    text = BEGIN + textwrap.dedent(program)
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["0"], ran.stderr
