"""Loading kernels: what is compiled when, and on whose account."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes
import os
import threading

from triton.backends.compiler import GPUTarget

from minitorch2 import stages
from minitorch2.native.triton_internals import driver
from minitorch2.codegen.triton import launch

class Driver:  # what `getuid` answers does not matter: 0 is a success, anything else an error
    cuLaunchKernel = ctypes.CDLL(None).getuid

launch.target_of = lambda device: GPUTarget("cuda", 90, 32)
driver.cuda_driver = lambda: Driver
driver.load_binary = lambda binary, device: 1

warm = launch.warm_up(0)
print(warm.result().threads, launch.warm_up(0) is warm)

with stages.collect(texts=False) as log:
    kernel = launch.load_triton_kernel("nothing", launch._NOTHING)

def first_launch():
    try:
        kernel(1, 0, 16)
    except RuntimeError as error:
        assert os.getuid()

thread = threading.Thread(target=first_launch)
thread.start()
thread.join()
print(sorted(log.seconds))
"""


def run(program: str) -> list[str]:
    """The lines that a program prints for which Triton really compiles."""
    root = Path(__file__).parents[4]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    environment["PYTHONPATH"] = os.pathsep.join((str(root / "src"), str(root), *sys.path))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=root
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_the_first_compilation_is_over_early_and_a_thread_reports_to_the_compilations_log() -> None:
    warm, phases = run(PROGRAM)
    assert warm == "32 True"
    assert phases == "['kernel_compile', 'kernel_load']"
