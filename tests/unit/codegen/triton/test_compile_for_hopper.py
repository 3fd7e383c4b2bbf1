"""Kernels compile for a real GPU, which need not be there: a Hopper target, down to PTX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = r"""
import re, subprocess, tempfile
from pathlib import Path
import torch
import torch.nn.functional as F
import triton
from minitorch2.codegen.triton.sites import find_sites
from minitorch2.codegen.triton.template import TemplateNode, Tile, print_template_kernel
from triton.backends.compiler import GPUTarget
from minitorch2.codegen.triton.launch import kernel_of
from tests.unit.codegen.triton.run_lowered import Kernels, call_inputs, lower_graph, record

programs = {
    "pointwise": (lambda x: (x.sin(), x.sin().cos()), [torch.randn(8, 1024)], False),
    "symbolic": (lambda x: x.sin() + 1, [torch.randn(8, 1024)], True),
    "softmax": (lambda x: x.softmax(-1), [torch.randn(5, 100).bfloat16()], False),
    "float64 maximum": (lambda x: x.amax(-1), [torch.randn(5, 100).double()], False),
    "argmax": (lambda x: x.argmax(-1), [torch.randn(2, 20000)], False),
    "embedding": (lambda w, i: w[i], [torch.randn(9, 8), torch.randint(9, (5,))], False),
    "tiles": (lambda x, y: x.t() + y, [torch.randn(64, 64), torch.randn(64, 64)], False),
}
for name, (program, inputs, dynamic) in programs.items():
    gm = record(program, *inputs, dynamic=dynamic)
    made = Kernels(lower_graph(gm, call_inputs(gm, *inputs)))
    for kernel in made.kernels.values():
        launcher = kernel_of(kernel.source.name, kernel.source.text)
        code = launcher.compile_for(GPUTarget("cuda", 90, 32))
        wide = any(f"ld.global.v{n}.b32" in code.asm["ptx"] for n in (2, 4))
        print(name, "sm_90" in code.asm["ptx"], wide)

def registers(code):
    # of a kernel, and the bytes of memory that it spills them to, as ptxas reports them
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.asm["cubin"])
        file.flush()
        tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        told = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True)
    return re.search(r"REG:(\d+) STACK:(\d+)", told.stdout).groups()

def images(*size):
    return torch.randn(size).half().to(memory_format=torch.channels_last)

half = lambda *size: torch.randn(size).half()
templates = {
    "product": (lambda x, w, b: torch.addmm(b, x, w).relu(),
                [half(512, 1024), half(1024, 512), half(512)]),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(),
                    [images(8, 64, 16, 16), images(128, 64, 3, 3), half(128)]),
    "dequantized": (lambda x, w: F.linear(x.relu(), w.half()),
                    [half(512, 256), torch.ones(512, 256, dtype=torch.int8)]),
}
for name, (program, inputs) in templates.items():
    made = Kernels(lower_graph(record(program, *inputs)))
    (site,) = find_sites(made.schedule, made.lowered.output_names)
    node = TemplateNode(site, Tile(128, 128, 64, 8, 3), site.prologues)
    kernel = print_template_kernel(node, made.buffers, name="kernel")
    code = kernel_of("kernel", kernel.source.text).compile_for(GPUTarget("cuda", 90, 32))
    count, spilled = registers(code)
    on_tensor_cores = "sm_90" in code.asm["ptx"] and "wgmma" in code.asm["ptx"]
    print(name, len(site.prologues), on_tensor_cores and int(count) < 256, spilled)
"""


def test_kernels_compile_to_ptx() -> None:
    root = Path(__file__).parents[4]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    environment["PYTHONPATH"] = os.pathsep.join((str(root / "src"), str(root), *sys.path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, cwd=root
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 10 and all(line.split()[-2] == "True" for line in lines), done.stdout
    assert lines[0] == "pointwise True True"  # four numbers in one load
    templates = ("product 0", "convolution 0", "dequantized 2")
    assert lines[7:] == [f"{name} True 0" for name in templates]  # tensor cores, nothing spilled
