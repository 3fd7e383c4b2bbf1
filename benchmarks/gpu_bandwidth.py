"""Triton kernels on a GPU: bytes per second against eager and torch.compile, and block sizes.

    python -m benchmarks.gpu_bandwidth [--peer] [--sweep]

Each case counts the fewest bytes that it must move: every input read once, every output written
once. The ceiling is a device-to-device copy. `--sweep` tries other block sizes than `blocks.py`'s.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from triton.testing import do_bench

import minitorch2
from minitorch2.codegen.triton import domain
from minitorch2.codegen.triton.blocks import Blocks, looped_blocks, next_power_of_two
from minitorch2.codegen.triton.launch import kernel_of, load_triton_kernel
from tests.unit.codegen.triton.run_lowered import Kernels, kernels_of

Program = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    name: str
    program: Program
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.float32

    def inputs(self) -> list[torch.Tensor]:
        return [torch.randn(shape, device="cuda").to(self.dtype) for shape in self.shapes]


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((x * y + 1).abs().sqrt() - x.sigmoid()).clamp(-2, 2) * y.tanh()


def normalize(x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered * ((centered * centered).mean(-1, keepdim=True) + 1e-5).rsqrt()


BF16 = torch.bfloat16
CASES = [
    Case("sin and cos 1e7", lambda x: (x.sin(), x.sin().cos()), ((10**7,),)),
    Case("pointwise chain 1e7", chain, ((10**7,), (10**7,))),
    Case("pointwise chain 1e8", chain, ((10**8,), (10**8,))),
    Case("pointwise chain 1e8 bf16", chain, ((10**8,), (10**8,)), BF16),
    Case("transpose + add", lambda x, y: x.t() + y, ((8192, 8192), (8192, 8192))),
    Case("transpose + add bf16", lambda x, y: x.t() + y, ((8192, 8192), (8192, 8192)), BF16),
    Case("channels last", lambda x: x.permute(0, 2, 3, 1).contiguous(), ((64, 256, 56, 56),)),
    Case("row sum 97656x1024", lambda x: x.sum(-1), ((97656, 1024),)),
    Case("column sum 97656x1024", lambda x: x.sum(0), ((97656, 1024),)),
    Case("row sum 8192x8192", lambda x: x.sum(-1), ((8192, 8192),)),
    Case("row sum 1024x100000", lambda x: x.sum(-1), ((1024, 100000),)),
    Case("column sum 8192x8192", lambda x: x.sum(0), ((8192, 8192),)),
    Case("column sum 1000000x64", lambda x: x.sum(0), ((1000000, 64),)),
    Case("sum of everything 1e8", lambda x: x.sum(), ((10**8,),)),
    Case("variance of everything 1e8", lambda x: x.var(), ((10**8,),)),
    Case("variance 1024x100000", lambda x: x.var(-1), ((1024, 100000),)),
    Case("column variance 1000000x64", lambda x: x.var(0), ((1000000, 64),)),
    Case("softmax 65536x1024", lambda x: x.softmax(-1), ((65536, 1024),)),
    Case("softmax 16384x4096", lambda x: x.softmax(-1), ((16384, 4096),)),
    Case("softmax 8192x8192", lambda x: x.softmax(-1), ((8192, 8192),)),
    Case("softmax 4096x16384", lambda x: x.softmax(-1), ((4096, 16384),)),
    Case("softmax 1024x65536", lambda x: x.softmax(-1), ((1024, 65536),)),
    Case("softmax 16384x4096 bf16", lambda x: x.softmax(-1), ((16384, 4096),), BF16),
    Case("normalize 65536x1024", normalize, ((65536, 1024),)),
    Case("normalize 100000x768 bf16", normalize, ((100000, 768),), BF16),
    Case("gelu + residual 1e7", lambda x, y: F.gelu(x + y) + x, ((10**7,), (10**7,))),
]


@dataclass(frozen=True)
class Trained:
    """Forward and backward by `compile`; `passes` is how often memory of the input's size must be
    read or written: each kernel reads what it needs once and writes its result once."""

    name: str
    program: Program
    shape: tuple[int, ...]
    forward: int
    backward: int


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def affine_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b)


def cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target)


TRAINED = [
    Trained("layer norm 97656x1024", layer_norm, (97656, 1024), 2, 3),
    Trained("layer norm with weights", affine_norm, (97656, 1024), 2, 5),
    Trained("cross entropy 97656x1024", cross_entropy, (97656, 1024), 1, 2),
    Trained("cross entropy 2048x50257", cross_entropy, (2048, 50257), 1, 2),
    Trained("softmax 97656x1024", lambda x: x.softmax(-1), (97656, 1024), 2, 3),
    Trained("gelu 1e8", F.gelu, (10**8,), 2, 3),
]


def others(case: Trained) -> list[torch.Tensor]:
    """The inputs besides the first."""
    n, rest = case.shape[-1], case.program.__code__.co_argcount - 1
    if case.program is cross_entropy:
        return [torch.randint(n, case.shape[:1], device="cuda")]
    return [torch.randn(n, device="cuda", requires_grad=True) for _ in range(rest)]


def trained(copied: float, peer: bool) -> None:
    for case in TRAINED:
        x = torch.randn(case.shape, device="cuda", requires_grad=True)
        inputs = [x, *(others(case) if case.program is not F.gelu else [])]
        wanted = [t for t in inputs if t.requires_grad]
        line = f"{case.name:26}"
        made = {"ours": minitorch2.compile(case.program), "eager": case.program}
        for name, function in (
            made | ({"peer": torch.compile(case.program)} if peer else {})
        ).items():
            torch._dynamo.reset()
            y = function(*inputs)
            dy = torch.randn_like(y)
            with torch.no_grad():
                function(*inputs)
                forward = milliseconds(lambda f=function: f(*inputs))
            backward = milliseconds(
                lambda y=y, dy=dy: torch.autograd.grad(y, wanted, dy, retain_graph=True)
            )
            for what, spent, passes in (
                ("forward", forward, case.forward), ("backward", backward, case.backward)
            ):  # fmt: skip
                rate = passes * x.nbytes / spent / 1e9
                line += f"  {name} {what} {spent:.3f} ms {rate / copied:4.0%}"
        print(line, flush=True)


def milliseconds(function: Callable[[], Any]) -> float:
    return float(do_bench(function, warmup=20, rep=60, return_mode="median"))


def launches(made: Kernels, inputs: list[torch.Tensor]) -> Callable[[], None]:
    """All kernels of a graph, on memory that is there already."""
    made.run(inputs)
    work = [
        (load_triton_kernel(kernel.source.name, kernel.source.text), made.arguments(kernel))
        for kernel in made.kernels.values()
    ]

    def run() -> None:
        for launcher, arguments in work:
            launcher(*arguments)

    return run


def moved_bytes(made: Kernels, inputs: list[torch.Tensor]) -> int:
    return sum(t.nbytes for t in (*inputs, *made.run(inputs)))


def table(peer: bool, only: str) -> None:
    copy_from, copy_to = torch.randn(2, 10**8, device="cuda")
    copied = 8e8 / milliseconds(lambda: copy_to.copy_(copy_from)) / 1e9
    print(f"device-to-device copy: {copied:.2f} TB/s")
    trained(copied, peer)
    for case in CASES:
        if only not in case.name:
            continue
        inputs = case.inputs()
        start = time.perf_counter()
        made = kernels_of(case.program, *inputs)
        run = launches(made, inputs)
        torch.cuda.synchronize()
        compiled_in = time.perf_counter() - start
        count = moved_bytes(made, inputs)
        ours = milliseconds(run)
        eager = milliseconds(lambda case=case, inputs=inputs: case.program(*inputs))
        line = f"{case.name:28} {len(made.kernels)} kernels  ours {ours:.4f} ms"
        line += f" {count / ours / 1e9:5.2f} TB/s {count / ours / 1e9 / copied:5.0%} of copy"
        line += f"  eager {eager:.4f} ms ({eager / ours:.2f}x)  made in {compiled_in:.1f} s"
        if peer:
            torch._dynamo.reset()
            function = torch.compile(case.program)
            function(*inputs)
            theirs = milliseconds(lambda f=function, inputs=inputs: f(*inputs))
            line += f"  torch.compile {theirs:.4f} ms ({theirs / ours:.2f}x)"
        print(line, flush=True)


def variants(blocks: Blocks, rnumel: int, itemsize: int) -> Iterator[Blocks]:
    """Other blocks for a kernel that has `blocks`."""
    if blocks.y is not None:
        for x, y, warps in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), (4, 8)):
            if 1024 <= x * y <= 8192:
                yield Blocks(x, warps, y=y)
        return
    if blocks.r is None:
        for x, warps in itertools.product((512, 1024, 2048), (4, 8)):
            yield Blocks(x, warps)
        return
    whole = next_power_of_two(rnumel)
    is_row = blocks.persistent or blocks.x == 1
    for x, warps in itertools.product((1, 2), (2, 4, 8, 16, 32)):
        if is_row and warps * 128 <= x * whole <= min(65536, warps * 4096):
            yield Blocks(x, warps, r=whole, persistent=True)
    rows = ((1, 1024), (1, 2048), (1, 4096), (1, 8192), (1, 16384))
    columns = ((32, 32), (64, 32), (64, 64), (128, 16), (256, 16), (512, 8), (1024, 8))
    for (x, r), warps in itertools.product(rows if is_row else columns, (4, 8, 16, 32)):
        if r < whole:
            yield looped_blocks(x, warps, r, itemsize)


def sweep(only: str) -> None:
    for case in CASES:
        if only not in case.name:
            continue
        inputs = case.inputs()
        first = kernels_of(case.program, *inputs)
        count = moved_bytes(first, inputs)
        node, removed = first.schedule.kernels()[0], frozenset(first.schedule.removed)
        now = domain.choose_domain(node, first.buffers, removed).blocks
        rates = [(count / spent / 1e9, b) for b, spent in timed(case, inputs, now, node.group[1])]
        best = sorted(rates, key=lambda item: -item[0])[:8]
        print(f"{case.name:28} {rates[0][0]:.2f} now; " + "; ".join(map(shown, best)), flush=True)


def timed(
    case: Case, inputs: list[torch.Tensor], blocks: Blocks, rnumel: int
) -> Iterator[tuple[Blocks, float]]:
    for tried in (blocks, *variants(blocks, rnumel, case.dtype.itemsize)):
        with contextlib.ExitStack() as stack:
            for name in ("pointwise_blocks", "reduction_blocks", "tile_blocks"):
                stack.enter_context(mock.patch.object(domain, name, return_value=tried))
            made = kernels_of(case.program, *inputs)
        try:
            yield tried, milliseconds(launches(made, inputs))
        except Exception as error:
            print(case.name, tried, type(error).__name__)


def shown(item: tuple[float, Blocks]) -> str:
    rate, blocks = item
    sizes = "x".join(map(str, blocks.parameters().values()))
    return f"{rate:.2f} {sizes}{'p' if blocks.persistent else ''} w{blocks.warps}"


def overhead() -> None:
    """Microseconds of one launch on the host, for a tensor so small that the GPU waits."""
    x = torch.randn(64, device="cuda")
    made = kernels_of(lambda x: x + 1, x)
    made.run([x])
    first = next(iter(made.kernels.values()))
    launcher = load_triton_kernel(first.source.name, first.source.text)
    kernel = kernel_of(first.source.name, first.source.text)
    arguments = made.arguments(first)
    tensors = [made.memory[name] for name in first.buffers]
    jit = kernel.function[(1,)]
    compiled = torch.compile(lambda x: x + 1)
    for name, function in {
        "Launcher": lambda: launcher(*arguments),
        "Triton's front end": lambda: jit(*tensors, **kernel.blocks, **kernel.options),
        "eager x + 1": lambda: x + 1,
        "torch.compile x + 1": lambda: compiled(x),
    }.items():
        function()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(2000):
            function()
        spent = time.perf_counter() - start
        torch.cuda.synchronize()
        print(f"{name:22} {spent / 2000 * 1e6:.2f} us")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    overhead()
    table(options.peer, options.only)
    if options.sweep:
        sweep(options.only)
