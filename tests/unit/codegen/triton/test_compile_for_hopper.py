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
from minitorch2.codegen.triton.templates.attention import find_attentions
from minitorch2.codegen.triton.templates.online_softmax import AttentionNode
from minitorch2.codegen.triton.templates.sites import find_sites
from minitorch2.codegen.triton.templates.template import TemplateNode, Tile, print_template_kernel
from triton.backends.compiler import GPUTarget
from minitorch2.codegen.triton.launch import kernel_of
from minitorch2.graph.fake_tensor import FakeTensor
from tests.unit.codegen.triton.run_lowered import (
    Kernels, call_inputs, joined_texts, lower_graph, record,
)

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

many = [torch.randn(16 * n) for n in range(1, 61)]
for text in joined_texts(lambda *tensors: tuple(x.exp() + 1 for x in tensors), *many):
    ptx = kernel_of("joined", text).compile_for(GPUTarget("cuda", 90, 32)).asm["ptx"]
    # The addresses are those of one part or of another, and the code is there once.
    loads = re.findall(r"ld\.global\S*", ptx)
    print("joined", text.count("def part"), len(loads), all("v4.b32" in load for load in loads))

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

def attention(q, k, v):
    rows, columns = (torch.arange(n) for n in (q.shape[-2], k.shape[-2]))
    scores = q @ k.transpose(-1, -2) / 8
    return scores.masked_fill(columns > rows[:, None], float("-inf")).softmax(-1) @ v

made = Kernels(lower_graph(record(attention, *(half(2, 4, 512, 64) for _ in range(3)))))
(found,) = find_attentions(made.schedule, made.lowered)
kernel = AttentionNode(found).print_kernel(made.buffers, name="kernel")
code = kernel_of("kernel", kernel.source.text).compile_for(GPUTarget("cuda", 90, 32))
count, spilled = registers(code)
print("attention", "wgmma" in code.asm["ptx"], int(count) < 256, spilled)

def loops(ptx):
    # the instructions from each label to the last jump back to it
    for label in re.finditer(r"^(\$L\w+):", ptx, re.M):
        jumps = [m.end() for m in re.finditer(rf"bra\S*\s+{re.escape(label[1])};", ptx)]
        if jumps and max(jumps) > label.end():
            yield ptx[label.end() : max(jumps)]

def on_gpu(*size, dtype=torch.float32):
    return FakeTensor(torch.empty(size, dtype=dtype, device="meta"), torch.device("cuda", 0))

long = {
    "columns": (lambda x: x.sum(0), on_gpu(97656, 1024)),
    "columns of halves": (lambda x: x.sum(0), on_gpu(97656, 1024, dtype=torch.float16)),
    "rows": (lambda x: x.sum(-1), on_gpu(1024, 100000)),
    "positions": (lambda x: x.argmax(-1), on_gpu(1024, 100000)),
    "softmax": (lambda x: x.softmax(-1), on_gpu(1024, 65536)),
    "odd softmax": (lambda x: x.softmax(-1), on_gpu(2048, 50257)),
}
for name, (program, x) in long.items():
    made = Kernels(lower_graph(record(program, x)))
    kernel = next(iter(made.kernels.values()))
    code = kernel_of(kernel.source.name, kernel.source.text).compile_for(GPUTarget("cuda", 90, 32))
    bodies = list(loops(code.asm["ptx"]))
    alone = not any(word in body for body in bodies for word in ("shfl", "bar.sync"))
    wide = all(".v4.b32" in body for body in bodies if "ld.global" in body)
    print("loops", name, len(bodies), alone, wide, registers(code)[1])
"""

LOOPS = {
    "columns": 1, "columns of halves": 1, "rows": 1, "positions": 1, "softmax": 2, "odd softmax": 2,
}  # fmt: skip
"""How many loops the first kernel has."""


def test_kernels_compile_to_ptx() -> None:
    root = Path(__file__).parents[4]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    environment["PYTHONPATH"] = os.pathsep.join((str(root / "src"), str(root), *sys.path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, cwd=root
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed = done.stdout.splitlines()
    assert [line for line in printed if line.startswith("joined")] == ["joined 1 2 True"]
    printed = [line for line in printed if not line.startswith("joined")]
    lines = [line for line in printed if not line.startswith("loops")]
    assert len(lines) == 11 and all(line.split()[-2] == "True" for line in lines), done.stdout
    assert lines[0] == "pointwise True True"  # four numbers in one load
    templates = ("product 0", "convolution 0", "dequantized 2")
    assert lines[7:10] == [f"{name} True 0" for name in templates]  # tensor cores, no spills
    assert lines[10] == "attention True True 0"
    # accumulators meet only what their own thread has loaded, 16 bytes at once where rows allow it
    rows_allow = {name: name != "odd softmax" for name in LOOPS}
    assert printed[len(lines) :] == [
        f"loops {name} {count} True {rows_allow[name]} 0" for name, count in LOOPS.items()
    ]
