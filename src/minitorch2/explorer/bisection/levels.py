"""The part of the compiler that a failing program blames, searched from the top down.

    0. fake implementations         those of the user's operators, compared with the real ones
    1. the ladder of backends       the first rung that fails names the floor
    2. passes, then their rewrites  the pass without which it is right, and its first wrong rewrite
    3. fusions                      the first wrong fusion, as if fusing were a pass
    4. switches                     options of the floors below that, one by one; kernels in Python
    5. kernels                      those that compute the first wrong value, or else all

Each level is a trial of the same program, or of its first operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from minitorch2 import config, stages
from minitorch2.backends import lookup_backend
from minitorch2.bytecode.compiling.backend_calls import name_of
from minitorch2.explorer.bisection.differences import Difference
from minitorch2.explorer.bisection.minimize import returning
from minitorch2.explorer.bisection.programs import Program
from minitorch2.explorer.bisection.rewrites import WrongRewrite, first_wrong_rewrite
from minitorch2.explorer.bisection.trials import Trial
from minitorch2.native.torch_internals.operators import OpOverloadPacket

LADDER: Final[Mapping[str, str]] = {
    "eager": "capture: the captured graph is not what the function computes",
    "aot_eager": "autograd: functional graphs, gradients and passes",
    "aot_eager_decomp_partition": "autograd: decompositions and the cut into forward and backward",
    "aot_numpy": "loopir: lowering to loops",
}
"""The floor to blame if a backend is the first to fail."""
KERNEL_BACKENDS: Final = ("fitting_backend", "numba", "triton", "kernels")
CACHE: Final = "graph cache: it is right without the cache, and wrong behind what filled it"
"""The floor if only the cache makes it wrong."""
CODE: Final = "codegen: schedule, kernels and wrapper"
SWITCHES: Final[Mapping[str, config.Value]] = {
    "cache": False,
    "freezing": False,
    "donate_inputs": False,
    "fusion": False,
    "inline_pointwise": False,
    "reorder_loops": False,
    "join_launches": False,
    "arenas": False,
    "cudagraphs": False,
    "max_autotune": False,
    "cpu_compiler": "python",
}
"""The value of each option that takes a part of the compiler away."""
_PLACE: Final = re.compile(r"File: <bisected program \d+>:\d+, code: ")
NUMPY_ELEMENTS: Final = 1 << 14
"""The interpreter of loops is slow: programs with larger inputs leave its rung out."""


@dataclass(frozen=True)
class Blame:
    """The parts of the compiler without which a program is right.

    Attributes:
        floor: the first floor with which it is wrong.
        rewrite: the first wrong rewrite of a pass, or the first wrong fusion.
        switches: the options with which it is right, such as ``"fusion=False"``.
        kernels: the names of the kernels that compute the first wrong value, or else of all.
        first_wrong: the operation whose value is the first wrong one; "" if none alone is wrong.
    """

    floor: str
    rewrite: WrongRewrite | None = None
    switches: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    first_wrong: str = ""

    def lines(self) -> Iterator[str]:
        """Yield what is known, a line for each."""
        yield f"blame: {self.floor}"
        if self.rewrite is not None:
            yield f"right without rewrite {self.rewrite.number} of {self.rewrite.name}"
            yield from (f"  {_PLACE.sub('', rewrite)}" for rewrite in self.rewrite.rewrites)
        if self.switches:
            yield f"right with {', or '.join(self.switches)}"
        if self.first_wrong:
            yield f"the first wrong value: {self.first_wrong}"
        if self.kernels:
            yield f"kernels: {', '.join(self.kernels)}"


def blame_of(program: Program, trial: Trial, found: Difference) -> Blame:
    """Return the parts of the compiler that make a program fail in this way."""

    def fails(with_trial: Trial, part: Program = program) -> bool:
        return found.is_like(with_trial.difference(part))

    floor = _floor(program, trial, fails)
    rewrite = first_wrong_rewrite(lambda: not fails(trial))
    switches = switches_of(trial, SWITCHES, fails)
    floor = CACHE if "cache=False" in switches else floor
    wrong = first_wrong(program, lambda part: fails(trial, part))
    return Blame(floor, rewrite, switches, _guilty(program, wrong, trial), wrong)


def switches_of(
    trial: Trial, switches: Mapping[str, config.Value], fails: Callable[[Trial], bool]
) -> tuple[str, ...]:
    """Return the options with which a trial that fails does not, such as ``"fusion=False"``."""
    return tuple(
        f"{name}={value!r}"
        for name, value in switches.items()
        if trial.options.get(name, getattr(config.current(), name)) != value
        and not fails(trial.with_options(**{name: value}))
    )


def wrong_fake(program: Program, small: Program) -> str:
    """Return the user's operator whose fake implementation is wrong, as a blame; "" if none is.

    Args:
        program: the graph as it was captured, as a smaller one may have inputs of other sizes.
        small: what is left of it; only its operators are tried.
    """
    left = {node.name for node in small.graph.nodes}
    for node in (node for node in program.graph.nodes if node.name in left):
        fake, namespace = node.meta.get("val"), _namespace(node.target)
        if namespace != "aten" and isinstance(fake, torch.Tensor):
            part = returning(program, node)
            real = part.function()(*part.arguments())[0]
            said, found = (_described(each) for each in (fake, real))
            if all(type(size) is int for size in fake.shape) and said != found:
                return f"the fake implementation of {node.target}: it says {said}, and gets {found}"
    return ""


def _namespace(target: object) -> str:
    """Return the library of an operator, or of all its overloads; that of functions is PyTorch."""
    if isinstance(target, OpOverloadPacket):
        return str(target).partition(".")[0]
    return getattr(target, "namespace", "aten")


def _described(value: torch.Tensor) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}"


def _floor(program: Program, trial: Trial, fails: Any) -> str:
    tensors = [each for each in program.inputs if isinstance(each, torch.Tensor)]
    is_small = sum(each.numel() for each in tensors) <= NUMPY_ELEMENTS
    for name, floor in LADDER.items():
        rung = replace(trial, backend=lookup_backend(name))
        if (is_small or name != "aot_numpy") and fails(rung):
            return floor
    name = name_of(trial.backend)
    return CODE if name in KERNEL_BACKENDS else f"the backend {name}"


def first_wrong(program: Program, fails: Callable[[Program], bool]) -> str:
    """Return the line of the first operation whose value, returned alone, is wrong; or else ""."""
    calls = [node for node in program.graph.nodes if node.op.startswith("call")]
    tensors = [node for node in calls if isinstance(node.meta.get("val"), torch.Tensor)]
    wrong = next((node for node in tensors if fails(returning(program, node))), None)
    lines = (line.strip() for line in program.text().splitlines())
    return next((n for n in lines if wrong is not None and n.startswith(f"{wrong.name} = ")), "")


def _guilty(program: Program, wrong: str, trial: Trial) -> tuple[str, ...]:
    """Return the kernels that compute a line of a program, or all if none says so."""
    texts = _kernel_texts(program, trial)
    found = [text for text in texts if wrong and f"code: {wrong}" in text]
    return names_of(found or texts)


def _kernel_texts(program: Program, trial: Trial) -> list[str]:
    """Return the texts of a program's kernels; none if its process would die."""
    if trial.own_process:
        return []
    with stages.collect() as log:
        trial.with_options(cache=False).difference(program)
    return list(dict.fromkeys(log.texts("kernel.py")))


def names_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the functions that texts of kernels define."""
    lines = (line for text in texts for line in text.splitlines() if line.startswith("def "))
    return tuple(dict.fromkeys(line[4:].partition("(")[0] for line in lines))
