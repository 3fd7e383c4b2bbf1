"""Programs that show the planted bugs of graphs, gradients, loops and kernels, each among others.

The operation that shows a bug stands in the middle of some twenty that have nothing to do with it.
`python -m tests.mutants.haystacks` plants each bug, lets `minitorch2.bisect` search, and counts.

A bug of capture makes a function wrong whose graphs are all right: it is found and blamed, and
there is no graph to cut. A bug of guards makes a second call wrong, and is found likewise.

`left_out` has the reason for each bug that has no program here.
"""

import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import minitorch2
from minitorch2.explorer.bisection import Bisection
from tests.mutants.left_out import why_left_out
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.test_mutants import own_kernels

Function = Callable[..., Any]


@dataclass(frozen=True)
class Haystack:
    """A program that is wrong with a bug.

    Attributes:
        needle: the function that the bug makes wrong.
        inputs: its arguments.
        backend: the backend that has the bug.
    """

    needle: Function
    inputs: Callable[[], list[Any]]
    backend: str = "numba"

    def __call__(self, *inputs: Any) -> Any:
        """Run the needle between operations that are right."""
        hay = hay_in_front(inputs[-1])
        found = self.needle(*inputs[:-1])
        first = found[0] if isinstance(found, tuple) else found
        return found, hay_behind(hay, first)


def hay_in_front(x: Tensor) -> Tensor:
    for _ in range(3):
        y = F.layer_norm(x @ x.t(), (x.shape[0],))
        x = torch.tanh(y @ x) + x * 0.5
    return x


def hay_behind(hay: Tensor, found: Tensor) -> Tensor:
    y = hay.softmax(-1).sum(0) + found.detach().to(hay.dtype).sum() * 0.01
    return F.relu(y * 2 - 1).cos()


def tensors(*sizes: tuple[int, ...], grad: bool = False) -> Callable[[], list[Tensor]]:
    def make() -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        made = [torch.randn(size, generator=generator) for size in (*sizes, (6, 5))]
        return [each.requires_grad_(grad) for each in made[:-1]] + made[-1:]

    return make


def dropouts(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5) + F.dropout(x, 0.5)


def dropout_of_kept(x: Tensor) -> Tensor:
    """Eager keeps the operand of the product, so backward has it for nothing."""
    return F.dropout(x, 0.5) * x


def attention_around_write(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.mT) * 0.5
    weights = scores.softmax(-1)
    k.mul_(2)
    return weights @ v


def writes_input(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.sin()


def other_addresses(x: Tensor) -> Tensor:
    y = (x + 1).sum(0, keepdim=True).exp()
    z = (x.t().contiguous() * 2).relu()
    return (z + z.flip(0)) * y.sum()


def reused(x: Tensor) -> Tensor:
    a = x @ x.t()
    b = a.relu() @ a
    c = (a + b) @ b
    return c @ a + b


def masked_pad(x: Tensor) -> Tensor:
    return F.pad(x, (1, 2), value=3.0) * 2


def bits(x: Tensor) -> Tensor:
    return (x * 3).half().view(torch.int16) + 1


def looked_up(x: Tensor) -> Tensor:
    rows = torch.tensor([1, 2, 1])
    return F.embedding(rows, x, sparse=True)


class Pair(NamedTuple):
    first: int
    second: int

    def index(self, *_: Any) -> int:
        return 7


def method_of_pair(x: Tensor) -> Tensor:
    return x * Pair(1, 2).index(1)


def hooked(x: Tensor) -> Tensor:
    y = x.sin()
    y.register_hook(lambda gradient: gradient * 2)
    return y.cos()


def new_of_shape(x: Tensor) -> Tensor:
    return x.new(torch.Size([2, 3])).fill_(1) + x.sum()


def strided() -> list[Tensor]:
    x, hay = tensors((4, 10))()
    return [x[:, ::2], hay]


HAYSTACKS: dict[str, Haystack] = {
    "two random tensors of one kind are merged": Haystack(dropouts, tensors((8, 8))),
    "a rewrite moves a read behind a write": Haystack(
        attention_around_write, tensors((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
    ),
    "random masks are drawn again in backward": Haystack(
        dropout_of_kept, tensors((8, 8), grad=True)
    ),
    "the derivative of gelu lacks its second term": Haystack(
        lambda x: F.gelu(x) * 2, tensors((4, 5), grad=True)
    ),
    "writes to inputs that need no gradient are not written back": Haystack(writes_input, strided),
    "maximum and minimum change places in the NumPy interpreter": Haystack(
        lambda x, y: torch.maximum(x, y).sin(), tensors((4, 5), (4, 5)), "aot_numpy"
    ),
    "a concatenation's part ends one element late": Haystack(
        lambda x, y: torch.cat([x, y.exp()], 1) * 2, tensors((4, 5), (4, 3))
    ),
    "nodes are fused although the reader reads other addresses than were written": Haystack(
        other_addresses, tensors((7, 7))
    ),
    "memory is reused before its last reader": Haystack(reused, tensors((8, 8))),
    "a buffer is freed one step before its last use": Haystack(reused, tensors((8, 8))),
    "of the buffers that a kernel computes, the first one is not made": Haystack(
        lambda x: (x.sin(), x.cos()), tensors((4, 5))
    ),
    "a sparse gradient leaves a graph as a dense one": Haystack(
        looked_up, tensors((5, 4), grad=True)
    ),
    "the bits of a 16-bit float are those of a float32, cut": Haystack(bits, tensors((4, 5))),
    "a coefficient of the exponential's polynomial is wrong in the third digit": Haystack(
        lambda x: torch.exp(x) + 1, tensors((8, 8))
    ),
    "what is masked off is 0 instead of the given value": Haystack(masked_pad, tensors((4, 5))),
}
"""By the bug."""


CAPTURED: dict[str, Haystack] = {
    "methods of a named tuple do not take the place of a tuple's": Haystack(
        method_of_pair, tensors((4, 5))
    ),
    "hooks in the graph change no gradient": Haystack(hooked, tensors((4, 5), grad=True)),
    "Tensor.new of a shape makes a tensor of the numbers in it": Haystack(
        new_of_shape, tensors((4, 5))
    ),
}
"""The bugs of capture: the function is wrong, and each of its graphs is right."""


def scaled(x: Tensor, n: Any) -> Tensor:
    return x * n + x.shape[0]


def in_order(x: Tensor, parts: dict[str, float]) -> Tensor:
    for number in parts.values():
        x = x.sin() * number
    return x


def applied(x: Tensor, function: Function) -> Tensor:
    found: Tensor = function(x)
    return found * 2


def doubled(x: Tensor) -> Tensor:
    return x * 2


def halved(x: Tensor) -> Tensor:
    return x / 2


X = torch.arange(12.0).reshape(3, 4)
LATER: dict[str, tuple[Function, list[Any], list[Any]]] = {
    "sizes of tensors are not guarded": (scaled, [X, 2], [X[:2], 2]),
    "the values of numbers and strings are not guarded": (scaled, [X, 2], [X, 3]),
    "the order of a dict's keys is not guarded": (
        in_order, [X, {"a": 2.0, "b": 3.0}], [X, {"b": 3.0, "a": 2.0}],
    ),
    "a function that another one replaced is taken for the same": (
        applied, [X, doubled], [X, halved],
    ),
}  # fmt: skip
"""The bugs of guards: the function, the arguments of a first call, and those of a wrong second."""
SEARCHED = HAYSTACKS.keys() | CAPTURED.keys() | LATER.keys()


def searched_later(mutant: Mutant) -> Bisection:
    """What the search finds in the second of two calls while a bug is planted."""
    function, first, second = LATER[mutant.bug]
    with mutant.plant.planted():
        return minitorch2.bisect(
            function,
            *second,
            earlier=[first],
            backend="eager",
            options={"dynamic": False},
            path=None,
        )


def searched(mutant: Mutant) -> Bisection:
    """What the search finds while a bug is planted."""
    if mutant.bug in LATER:
        return searched_later(mutant)
    haystack = (HAYSTACKS | CAPTURED)[mutant.bug]
    torch.manual_seed(0)
    with own_kernels(mutant), mutant.plant.planted():
        return minitorch2.bisect(
            haystack, *haystack.inputs(), backend=haystack.backend, options={"cache": False},
            path=None,
        )  # fmt: skip


def is_small(found: Bisection) -> bool:
    return found.difference is not None and found.text != "" and found.operations[1] <= 12


def is_of_capture(found: Bisection) -> bool:
    return found.blame is not None and found.blame.floor.startswith(("capture", "guards"))


def main() -> int:
    word = "".join(sys.argv[1:2])
    wanted = [m for m in MUTANTS if m.bug in SEARCHED and word in m.bug]
    missed = [mutant for mutant in wanted if not shows(mutant)]
    for mutant in MUTANTS:
        if mutant not in wanted and word in mutant.bug:
            print(f"left out: {mutant.name}\n    {why_left_out(mutant)}")
    small = sum(mutant.bug in HAYSTACKS for mutant in wanted)
    print(
        f"{len(wanted) - len(missed)} of {len(wanted)} bugs are found: {small} in graphs, cut down "
        f"to at most 12 operations, others blamed on capture and guards; {len(MUTANTS)} bugs in all"
    )
    return int(bool(missed))


def shows(mutant: Mutant) -> bool:
    """Print what the search finds; return whether it is what it should be."""
    start = time.perf_counter()
    found = searched(mutant)
    before, after = found.operations
    print(
        f"{before:3} -> {after:2} operations  {time.perf_counter() - start:5.1f} s  {mutant.name}"
    )
    print(textwrap.indent(str(found), "    "), flush=True)
    return is_small(found) if mutant.bug in HAYSTACKS else is_of_capture(found)


if __name__ == "__main__":
    sys.exit(main())
