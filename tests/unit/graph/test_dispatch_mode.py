"""Dispatch modes do not wake PyTorch's own compiler."""

import subprocess
import sys

FIRST_CALL = """
import sys, torch, minitorch2
x = torch.ones(3, requires_grad=True)
minitorch2.compile(lambda x: (x + 1).sum(), backend="numba")(x).backward()
print(sorted(name for name in sys.modules if name in ("torch._dynamo", "torch._inductor")))
"""


def test_the_first_call_does_not_import_pytorchs_compiler():
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
