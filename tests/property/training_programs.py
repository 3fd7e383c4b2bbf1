"""Random training programs: a model, a loss, an optimizer, and a style of training loop.

    python -m tests.property.training_programs --count 250 --backend numba
    python -m tests.property.training_programs --only tied-mse-adamw-clipped_norm-7

A style makes the functions that a loop calls. `Program.run` trains for some steps, eagerly or
compiled, and gives back all that can be seen afterwards; the last step has another batch size.
Numbers are doubles: what optimizers divide by the size of a gradient would else be noise.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import minitorch2
from minitorch2 import config, stages
from tests.property.training_parts import (
    BREAKING,
    BREAKING_MODELS,
    BY_SIGN,
    CLASSES,
    FEATURES,
    LOSSES,
    MODELS,
    OPTIMIZERS,
    SPARSE,
    WITH_CLOSURE,
)
from tests.property.training_styles import ONE_GRAPH, STYLES, Compile, Training

# Programs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """One training program: names of its parts."""

    model: str
    loss: str
    optimizer: str
    style: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.model}-{self.loss}-{self.optimizer}-{self.style}-{self.seed}"

    def run(self, compile: Compile, batches: tuple[int, ...] = (4, 4, 4, 6)) -> dict[str, Any]:
        """Train for some steps; all that can be seen: losses, parameters, gradients, states.

        Args:
            compile: what makes the functions of the loop fast.
            batches: how many examples each step has.
        """
        torch.manual_seed(self.seed)
        model = MODELS[self.model]().double()
        optimizer = OPTIMIZERS[self.optimizer](model.parameters())
        training = Training(model, LOSSES[self.loss], optimizer, compile)
        step = STYLES[self.style](training)
        seen = [_kept(step(*_batch(size, i + self.seed))) for i, size in enumerate(batches)]
        return {
            "results": seen,
            "parameters": [_kept(p) for p in model.parameters()],
            "buffers": [_kept(b) for b in model.buffers()],
            "besides": _kept(training.seen),
            "gradients": [_kept(p.grad) for p in model.parameters()],
            "layouts": [_layout(p.grad) for p in model.parameters()],
            "state": _kept(optimizer.state_dict()),
        }


def _batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, CLASSES, (size,), generator=generator)


def _kept(value: Any) -> Any:
    """The value as it is now."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, nn.Module):
        return _kept(value.state_dict())
    if isinstance(value, (list, tuple)):
        return [_kept(each) for each in value]
    if isinstance(value, dict):
        return {key: _kept(each) for key, each in value.items()}
    return value


def _layout(gradient: Tensor | None) -> Any:
    return None if gradient is None else (gradient.stride(), gradient.requires_grad)


# Comparing ----------------------------------------------------------------------------------------


def is_fair(program: Program) -> bool:
    """Whether the parts fit, and rounding cannot decide.

    Gradients that are 0 but for rounding have no sign.
    """
    if (program.optimizer in WITH_CLOSURE) != (program.style == "with_closure"):
        return program.optimizer not in WITH_CLOSURE
    if program.model == "sparse" and program.optimizer not in SPARSE:
        return False
    if program.optimizer == "sparseadam" and program.model != "sparse":
        return False
    noisy = program.model == "attentive" or program.style in ("in_autocast", "weighted")
    return not (program.optimizer.startswith(BY_SIGN) and noisy)


def programs(**chosen: Sequence[str]) -> st.SearchStrategy[Program]:
    """Programs of all parts, or of the chosen models, losses, optimizers and styles."""
    tables: dict[str, Iterable[str]] = {
        "models": MODELS, "losses": LOSSES, "optimizers": OPTIMIZERS, "styles": STYLES, **chosen
    }  # fmt: skip
    parts = [st.sampled_from(sorted(table)) for table in tables.values()]
    return st.builds(Program, *parts, seed=st.integers(0, 99)).filter(is_fair)


def each_part() -> Iterator[Program]:
    """Each part once, with ordinary others."""
    for model in MODELS:
        yield Program(model, "mse", "plain", "ordinary")
    for loss in LOSSES:
        yield Program("mlp", loss, "plain", "ordinary")
    for optimizer in OPTIMIZERS:
        model = "sparse" if optimizer == "sparseadam" else "mlp"
        style = "with_closure" if optimizer in WITH_CLOSURE else "ordinary"
        yield Program(model, "mse", optimizer, style)
    for style in STYLES:
        yield Program("mlp", "cross_entropy", "adamw", style)


def random_programs(seed: int) -> Iterator[Program]:
    """Programs without end, the same ones for the same seed."""
    draw = random.Random(seed)
    while True:
        parts = (draw.choice(sorted(t)) for t in (MODELS, LOSSES, OPTIMIZERS, STYLES))
        program = Program(*parts, seed=draw.randrange(100))
        if is_fair(program):
            yield program


Outcome = dict[str, Any] | type[Exception]


def outcome(program: Program, compile: Compile) -> Outcome:
    """What the program leaves, or the class of the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run(compile)
    except RuntimeError as error:
        return type(error)


def check(program: Program, backend: str = "aot_eager") -> stages.StageLog:
    """Compare a program with eager.

    Numbers are doubles, and equal but for `TOLERANCE`: a kernel adds in another order than an
    operator of PyTorch's, and fuses multiplications with additions.

    Raises:
        AssertionError: a result differs, or what is one graph breaks.
    """
    expected = outcome(program, lambda function: function)
    minitorch2.reset()
    with config.patch(fallback_random=True, suppress_errors=False), stages.collect() as log:
        given = outcome(program, lambda function: minitorch2.compile(function, backend=backend))
    compare(given, expected, ROUGH if is_rough(program) else TOLERANCE)
    if is_one_graph(program):
        assert not log.counts["graph_breaks"], log.texts("graph_break")
    return log


TOLERANCE = {"rtol": 1e-6, "atol": 1e-8}
ROUGH = {"rtol": 5e-2, "atol": 2e-2}
"""For what is computed in bfloat16."""


def compare(given: Any, expected: Any, tolerance: dict[str, float]) -> None:
    """Compare nested results: numbers within a tolerance, all else exactly.

    Raises:
        AssertionError: they differ.
    """
    found, form = pytree.tree_flatten_with_path(given)
    wanted, wanted_form = pytree.tree_flatten_with_path(expected)
    assert form == wanted_form, f"{form} instead of {wanted_form}"
    for (place, own), (_, other) in zip(found, wanted, strict=True):
        name = pytree.keystr(place)
        if isinstance(other, Tensor | float):
            torch.testing.assert_close(own, other, equal_nan=True, msg=_named(name), **tolerance)
        else:
            assert type(own) is type(other) and own == other, f"{name}: {own} instead of {other}"


def _named(name: str) -> Callable[[str], str]:
    return lambda text: f"{name}: {text}"


def is_rough(program: Program) -> bool:
    """Whether it computes in bfloat16, as Muon's iteration does."""
    return program.style == "in_autocast" or program.optimizer == "muon"


def is_one_graph(program: Program) -> bool:
    """Whether nothing in it may break the graph."""
    parts = (program.model in BREAKING_MODELS, program.optimizer.startswith(BREAKING))
    return program.style in ONE_GRAPH and not any(parts)


def main() -> int:
    """Check many programs; how many of them are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=250, help="each part first, then random ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="numba")
    parser.add_argument("--only", help="one program, as it is printed")
    options = parser.parse_args()
    endless = itertools.chain(each_part(), random_programs(options.seed))
    chosen = itertools.islice(endless, options.count)
    if options.only:
        *parts, seed = options.only.split("-")
        chosen = iter([Program(*parts, seed=int(seed))])
    wrong = sum(not _report(program, options.backend) for program in chosen)
    sys.stdout.write(f"{wrong} wrong\n")
    return wrong


def _report(program: Program, backend: str) -> bool:
    """Write a line about a program; whether it is right."""
    counted = ("graphs", "graph_breaks", "frames_as_is")
    try:
        log = check(program, backend)
        line = "ok    {}  graphs {}, breaks {}, in Python {}".format(
            program, *(log.counts[name] for name in counted)
        )
    except Exception as error:
        log = None
        first = str(error).strip().splitlines() or [""]
        line = f"WRONG {program}  {type(error).__name__}: {first[0]}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    return log is not None


if __name__ == "__main__":
    sys.exit(min(main(), 1))
