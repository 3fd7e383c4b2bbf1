"""Kernels as text. Each text is also run and compared with eager by `check`.

`pytest tests/golden/triton --update-golden` writes the files anew; read the difference before
committing it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from minitorch2.codegen.triton.templates.attention import find_attentions
from minitorch2.codegen.triton.templates.online_softmax import AttentionNode
from minitorch2.codegen.triton.templates.sites import find_sites
from minitorch2.codegen.triton.templates.template import TemplateNode, Tile, print_template_kernel
from minitorch2.loopir.lower_graph import lower_graph
from tests.unit.codegen.aten_graph import record
from tests.unit.codegen.triton.run_lowered import Kernels, check, joined_texts

FOLDER = Path(__file__).parent


def sin_cos(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.sin()
    return y, y.cos()


def normalize(x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered * ((centered * centered).mean(-1, keepdim=True) + 1e-5).rsqrt()


def transposed_sum(x: torch.Tensor) -> torch.Tensor:
    return x.t() + x.view(x.shape[1], x.shape[0])


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], bool]] = {
    "sin_cos": (sin_cos, (8, 1024), False),
    "sin_cos_with_a_tail": (sin_cos, (7, 33), False),
    "sin_cos_symbolic": (sin_cos, (8, 1024), True),
    "softmax": (lambda x: x.softmax(-1), (5, 100), False),
    "sum_in_a_loop": (lambda x: x.sum(-1), (2, 20000), False),
    "softmax_in_a_loop": (lambda x: x.softmax(-1), (2, 20000), False),
    "normalize": (normalize, (5, 64), False),
    "transposed_sum": (transposed_sum, (64, 32), False),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, golden: Callable[[Path, str], None]) -> None:
    program, shape, dynamic = CASES[name]
    text = "\n\n".join(check(program, torch.randn(shape), dynamic=dynamic).texts)
    golden(FOLDER / f"{name}.py.txt", text)


def gated_linear(gate: torch.Tensor, up: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(F.silu(gate) * up, w)


def convolution_block(*inputs: torch.Tensor) -> torch.Tensor:
    images, weight, bias, residual = inputs
    return F.relu(F.conv2d(images, weight, bias, stride=2, padding=1) + residual)


TEMPLATES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "gated_linear": (gated_linear, [(40, 100), (40, 100), (64, 100)]),
    "convolution_block": (
        convolution_block, [(2, 24, 8, 8), (32, 24, 3, 3), (32,), (2, 32, 4, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_template(name: str, golden: Callable[[Path, str], None]) -> None:
    """With prologues, a window, tails; `test_template.py` runs such kernels."""
    program, shapes = TEMPLATES[name]
    inputs = [torch.randn(shape).half() for shape in shapes]
    inputs = [x.to(memory_format=torch.channels_last) if x.ndim == 4 else x for x in inputs]
    made = Kernels(lower_graph(record(program, *inputs)))
    (site,) = find_sites(made.schedule, made.lowered.output_names)
    node = TemplateNode(site, Tile(16, 32, 16, warps=4, stages=2), site.prologues)
    kernel = print_template_kernel(node, made.buffers, name=name)
    golden(FOLDER / f"{name}.py.txt", kernel.source.text)


def window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = 5 * torch.tanh(q @ k.transpose(-1, -2) / 20)
    apart = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
    return scores.masked_fill((apart < 0) | (apart > 30), float("-inf")).softmax(-1) @ v


def test_attention(golden: Callable[[Path, str], None]) -> None:
    """Scores with a soft cap, in a causal window; `test_attention.py` runs such kernels."""
    inputs = [torch.randn(2, 2, 100, 24).half() for _ in range(3)]
    made = Kernels(lower_graph(record(window, *inputs)))
    (found,) = find_attentions(made.schedule, made.lowered)
    kernel = AttentionNode(found).print_kernel(made.buffers, name="attention")
    golden(FOLDER / "attention.py.txt", kernel.source.text)


def joint(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return a.exp() + 1, b.exp() + 1, c.sum(-1)


def test_joined(golden: Callable[[Path, str], None]) -> None:
    """Two kernels that compute the same and one that does not; run by `test_joined.py`."""
    inputs = [torch.randn(7, 33), torch.randn(4000), torch.randn(5, 64)]
    (text,) = joined_texts(joint, *inputs)
    golden(FOLDER / "joined.py.txt", text)


def test_sin_and_cos_load_once_and_store_twice() -> None:
    """What the slides show: buf0 stays in a register."""
    (text,) = check(sin_cos, torch.randn(8, 1024)).texts
    assert [text.count(f"{name}(") for name in ("tl.load", "tl.sin", "tl.cos")] == [1, 1, 1]
    assert text.count("tl.store(") == 2


def test_text_does_not_depend_on_buffer_names() -> None:
    (first,) = check(lambda x: x.sin(), torch.randn(4)).texts
    made = check(lambda x: (x.exp().sum() * 0 + x.sum(), x.sin())[1], torch.randn(4))
    assert first.split("@triton.jit")[1] == made.texts[-1].split("@triton.jit")[1]
