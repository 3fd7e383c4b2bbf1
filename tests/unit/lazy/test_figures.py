"""Figures 1 to 3 of the LazyTensor paper, as this package records and rewrites them.

The paper's operators take constants as nodes of the graph; here numbers are arguments. In Figure 2
the paper begins with random numbers and shows zeros: here both programs begin with zeros.
"""

from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import lazy
from minitorch2.autograd import aot_autograd
from minitorch2.autograd.runtime import run_as_it_is
from minitorch2.lazy import barrier

GOLDEN = Path(__file__).parents[2] / "golden" / "lazy"


pytestmark = pytest.mark.usefixtures("empty_trie")


def compiled_text(monkeypatch, program):
    """Return the graph that a backend compiles for a program, writes made values."""
    texts = []

    def keep(module, examples):
        texts.append(module.code)
        return run_as_it_is(module)

    def backend(module, examples):
        return aot_autograd(module, examples, forward_compiler=keep, decompositions={})

    monkeypatch.setattr(barrier, "lookup_backend", lambda name: backend)
    monkeypatch.setattr(barrier, "fitting_backend", backend)
    for _ in range(2):
        with minitorch2.lazily():
            kept = program()
        del kept
    return "\n".join(line for line in texts[-1].splitlines() if line and "# File" not in line)


def test_figure_1_a_product_and_a_sum(golden):
    x, y, z = torch.ones(2, 4), torch.ones(2, 4), torch.ones(2, 4)
    with minitorch2.lazily():
        kept = x * y + z
        text, drawing = lazy.pending_text(), lazy.pending_dot()
    assert torch.equal(kept, x * y + z)
    golden(GOLDEN / "figure_1.txt", text + "\n")
    golden(GOLDEN / "figure_1.dot", drawing + "\n")


def test_figure_2_a_loop_is_unrolled_and_a_write_is_a_sum(golden, monkeypatch):
    x = torch.ones(2, 4)

    def summed():
        s = torch.zeros(2, 4)
        for _ in range(2):
            s = s + x
        return s

    def summed_in_place():
        s = torch.zeros(2, 4)
        for _ in range(2):
            s += x
        return s

    with minitorch2.lazily():
        kept = summed()
        golden(GOLDEN / "figure_2.txt", lazy.pending_text() + "\n")
    del kept
    text = compiled_text(monkeypatch, summed)
    assert text.count("aten.add.Tensor") == 2
    assert compiled_text(monkeypatch, summed_in_place) == text


def test_figure_3_a_write_to_a_view_is_replayed_on_its_base(golden, monkeypatch):
    def program():
        x = torch.zeros(2, 3, 4)
        x.permute(1, 2, 0).add_(42)
        return x

    with minitorch2.lazily():
        kept = program()
        golden(GOLDEN / "figure_3_recorded.txt", lazy.pending_text() + "\n")
    del kept
    golden(GOLDEN / "figure_3.txt", compiled_text(monkeypatch, program) + "\n")
