"""Kernels compile for a real GPU, which need not be there: a Hopper target, down to PTX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import torch
from minitorch2.codegen.triton import template
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

x, w, b = (torch.randn(s).half() for s in ((512, 1024), (1024, 512), (512,)))
made = Kernels(lower_graph(record(lambda x, w, b: torch.addmm(b, x, w).relu(), x, w, b)))
(found,) = template.find_templates(made.schedule, {made.lowered.outputs[0].name})
node = template.TemplateNode(*found, template.TILES[0])
kernel = template.print_template_kernel(node, made.buffers, name="product")
code = kernel_of("product", kernel.source.text).compile_for(GPUTarget("cuda", 90, 32))
print("product", "sm_90" in code.asm["ptx"], "wgmma" in code.asm["ptx"])
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
    assert len(lines) == 8 and all("True" in line.split()[-2] for line in lines), done.stdout
    assert lines[0] == "pointwise True True"  # four numbers in one load
    assert lines[-1] == "product True True"  # tensor cores
