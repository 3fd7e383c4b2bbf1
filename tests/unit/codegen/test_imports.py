"""What a first call imports: a process whose graphs are in the cache needs no compiler."""

import subprocess
import sys

import pytest

COMPILERS = ("numba", "minitorch2.loopir.scheduler", "minitorch2.codegen.compile_graph")

PROGRAM = """
import sys, torch, minitorch2
from minitorch2 import stages
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
with stages.collect(texts=False) as log:  # texts are printed anew
    minitorch2.compile(model)(torch.randn(4, 8)).sum().backward()
found = [name for name in {compilers} if name in sys.modules]
print(log.counts["kernels_compiled"], log.counts["kernels_loaded"], *found)
"""


def first_call(folder) -> list[str]:
    code = PROGRAM.format(compilers=COMPILERS)
    environment = {"MINITORCH2_CACHE_DIR": str(folder), "PATH": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cache that one process has filled."""
    found = tmp_path_factory.mktemp("cache")
    compiled, _, *imported = first_call(found)
    assert int(compiled) > 0 and imported == [*COMPILERS]
    return found


def test_a_second_process_imports_no_compiler(folder):
    compiled, loaded, *imported = first_call(folder)
    assert compiled == "0" and int(loaded) > 0 and imported == []
