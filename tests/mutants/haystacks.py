"""Programs that show the planted bugs of graphs, gradients, loops and kernels, each among others.

The operation that shows a bug stands in the middle of some twenty that have nothing to do with it.
`python -m tests.mutants.haystacks` plants each bug, lets `minitorch2.bisect` search, and counts.

A bug of capture makes a function wrong whose graphs are all right: it is found and blamed, and
there is no graph to cut. A bug of guards makes a second call wrong, and is found likewise. Scripts
are searched as a backend, which gets the captured graph.

`left_out` has the reason for each bug that has no program here.
"""

import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import minitorch2
from minitorch2.explorer.bisection import Bisection
from minitorch2.explorer.bisection.outcomes import copies_of
from minitorch2.explorer.bisection.programs import Program
from minitorch2.explorer.bisection.trials import Earlier
from minitorch2.graph import passes
from minitorch2.graph.graph_module import GraphModule
from tests import conftest  # noqa: F401 - as in the tests, kernels of Triton are interpreted
from tests.mutants import needles
from tests.mutants.left_out import why_left_out
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.single_needles import SINGLE
from tests.mutants.test_mutants import own_kernels
from tests.property.test_rare_parts import both, shift

Function = Callable[..., Any]


@dataclass(frozen=True)
class Haystack:
    """A program that is wrong with a bug.

    Attributes:
        needle: the function that the bug makes wrong.
        inputs: its arguments.
        backend: the backend that has the bug.
        options: of the compilation.
    """

    needle: Function
    inputs: Callable[[], list[Any]]
    backend: str | Function = "numba"
    options: dict[str, Any] = field(default_factory=dict)

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


def strided() -> list[Tensor]:
    x, hay = tensors((4, 10))()
    return [x[:, ::2], hay]


def scripted(module: GraphModule, examples: list[Any]) -> Function:
    """Run a graph as a script; two runs in front, on copies, let it profile and specialize."""
    program = Program.of(module, examples)
    script = minitorch2.jit.script(program.function())
    held = program.inputs[len(examples) :]

    def run(*inputs: Any) -> Any:
        for _ in range(2):
            script(*copies_of([*inputs, *held]))
        return script(*inputs, *held)

    return run


def passed(module: GraphModule, examples: list[Any]) -> Function:
    """Run a graph behind the passes alone: captured graphs have writes, those of backends none."""
    kept = module.copy()
    passes.eliminate_common_subexpressions(kept)
    passes.eliminate_dead_code(kept)
    return kept


def reads_around_write(x: Tensor) -> Tensor:
    y = x * 2
    before = y.sum(0)
    y.add_(1)
    return before + y.sum(0)


def unread_write(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(x)
    return y.sin()


def shifted_product(x: Tensor, y: Tensor) -> Tensor:
    product = x @ y
    shift(product, 1.5)
    return (product + (product @ x).relu()) @ y


def writes_to_equals(x: Tensor, y: Tensor) -> Tensor:
    a, b = torch.zeros_like(x), torch.zeros_like(x)
    c: Tensor = both(a, 2.0, b)
    return a * 2 + b * 3 + c


def writes_detached(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(x)
    y.detach().mul_(2)
    return y


def assigns_row(x: Tensor) -> Tensor:
    y = x * 1
    y[0] = 1.5
    return y


def in_turn(x: Tensor) -> Tensor:
    a, b = x.sin(), x.cos()
    c, d = a - b, b - a
    return c * d - a


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
    "the mask leaves out the last element": Haystack(
        lambda x: (x * 2 + 1).sin(), tensors((4, 5)), "triton"
    ),
    "dead code ignores writes that the caller sees": Haystack(
        writes_detached, tensors((4,)), scripted
    ),
    "generated Python computes expressions in another order than the program": Haystack(
        in_turn, tensors((4,)), scripted
    ),
    "a constant that has a symbolic size is folded": Haystack(
        assigns_row, tensors((4, 5)), options={"dynamic": True}
    ),
    "equal reads are merged across a write": Haystack(reads_around_write, tensors((4, 5)), passed),
    "a write whose result nobody reads is dead code": Haystack(
        unread_write, tensors((4, 5)), passed
    ),
    "what a kernel of the user's has written in place is given to another result": Haystack(
        shifted_product, tensors((4, 4), (4, 4))
    ),
    "equal values that an operator of the user's writes are one tensor": Haystack(
        writes_to_equals, tensors((4, 4), (4, 4))
    ),
}
"""By the bug."""


CAPTURED: dict[str, Haystack] = {
    "methods of a named tuple do not take the place of a tuple's": Haystack(
        needles.method_of_pair, tensors((4, 5))
    ),
    "hooks in the graph change no gradient": Haystack(needles.hooked, tensors((4, 5), grad=True)),
    "Tensor.new of a shape makes a tensor of the numbers in it": Haystack(
        needles.new_of_shape, tensors((4, 5))
    ),
    "both sides of a graph break at a branch go on in the same place": Haystack(
        needles.branches, tensors((4,))
    ),
    "changes of dicts that came from outside are lost": Haystack(
        needles.writes_dict, lambda: [torch.ones(3), {"calls": 1}, torch.ones(6, 5)]
    ),
    "of two writes to a global variable the first one counts": Haystack(
        needles.writes_global_twice, tensors((4,))
    ),
    "of two gradients of a leaf the second one counts": Haystack(
        needles.two_gradients, tensors((4,))
    ),
    "hooks of leaves are lost": Haystack(needles.hook_of_leaf, tensors((4,))),
    "hooks that the captured code sets on a module are not called": Haystack(
        needles.sets_hook_on_module, tensors((2, 4))
    ),
    "instances do not see what was assigned to their class": Haystack(
        needles.assigns_to_class, tensors((4,))
    ),
    "a context variable that is set is not set at the end": Haystack(
        needles.sets_context_variable, tensors((4,))
    ),
    "a generator that was seeded is left as it was": Haystack(
        needles.seeds_generator, tensors((4,))
    ),
    "the text of a shape has the names of its symbols": Haystack(
        needles.text_of_shape, tensors((5, 6)), options={"dynamic": True}
    ),
    "a checkpoint that writes to a buffer is computed again as a whole": Haystack(
        needles.checkpoint_with_write, tensors((4,), grad=True)
    ),
    "an attribute that is no name of Python's is written behind a dot": Haystack(
        needles.odd_attribute, lambda: [torch.ones(3), needles.Named(), torch.ones(6, 5)]
    ),
    "behind a break an id is not found among the numbers that ids became": Haystack(
        needles.id_behind_break, tensors((4,))
    ),
    "a graph breaks between a tensor and a later question about its gradient": Haystack(
        needles.keeps_gradient_behind_break, tensors((4,), grad=True)
    ),
    "a write to what max has chosen is lost": Haystack(needles.writes_to_chosen, tensors((4,))),
    "a call that may raise and that nobody reads is dead code": Haystack(
        needles.may_raise, tensors((4,))
    ),
    "variables that only an exception handler reads are dead": Haystack(
        needles.handler_reads, lambda: [torch.ones(4), {}, torch.ones(6, 5)]
    ),
    "`is not` is read as `is`, `not in` as `in`": Haystack(needles.asks_is_not, tensors((4,))),
    "hooks are not called where captured code finds the gradient of what it computes": Haystack(
        needles.hook_of_computed, tensors((4,))
    ),
    "a key whose class has a hash of its own is looked up as an object": Haystack(
        needles.takes_as_key, tensors((4,))
    ),
    "a kept gradient misses what flows through another tensor that keeps its own": Haystack(
        needles.keeps_two_gradients, tensors((4,))
    ),
    "the override that classes of tensors inherit asks the overrides again": Haystack(
        needles.without_override, tensors((4,))
    ),
    "what is chosen at random is always the first": Haystack(
        needles.writes_chosen, lambda: [torch.ones(4), {}, torch.ones(6, 5)]
    ),
}
"""The bugs of capture: the function is wrong, and each of its graphs is right."""

X = torch.arange(12.0).reshape(3, 4)
LATER: dict[str, tuple[Function, list[Earlier], list[Any]]] = {
    "sizes of tensors are not guarded": (needles.scaled, [[X, 2]], [X[:2], 2]),
    "the values of numbers and strings are not guarded": (needles.scaled, [[X, 2]], [X, 3]),
    "the order of a dict's keys is not guarded": (
        needles.in_order, [[X, {"a": 2.0, "b": 3.0}]], [X, {"b": 3.0, "a": 2.0}],
    ),
    "what runs takes an absent key for a present one": (
        needles.may_have, [[X, {"b": 2.0}]], [X, {"a": 2.0}],
    ),
    "a function that another one replaced is taken for the same": (
        needles.applied, [[X, needles.doubled]], [X, needles.halved],
    ),
    "the code of a function is not guarded": (needles.helped, [[X], needles.change_code], [X]),
    "a function of PyTorch that was replaced is the old one": (
        needles.sines, [[X], needles.replace_sine], [X],
    ),
    "an attribute that a function gets later is not seen": (
        needles.attribute_of_function, [[X], needles.set_attribute], [X],
    ),
    "hooks on the accumulation of gradients are overlooked": (
        needles.accumulates, [[X[0]], needles.hook_accumulation], [X[0]],
    ),
    "code that was captured without deterministic algorithms runs with them": (
        needles.asks_for_determinism, [[X], needles.make_deterministic], [X],
    ),
}  # fmt: skip
"""The bugs of guards: the function, what comes earlier, and the arguments of a wrong call."""
SEARCHED = HAYSTACKS.keys() | CAPTURED.keys() | LATER.keys() | SINGLE.keys()


def searched_later(mutant: Mutant) -> Bisection:
    """What the search finds in the second of two calls while a bug is planted."""
    with mutant.plant.planted():
        return search_later(mutant.bug)


def search_later(bug: str) -> Bisection:
    """What the search finds in the program that a bug of guards makes wrong."""
    function, earlier, arguments = LATER[bug]
    with needles.world_kept():
        return minitorch2.bisect(
            function, *arguments, earlier=earlier, backend="aot_eager",
            options={"dynamic": False}, path=None,
        )  # fmt: skip


def searched_single(mutant: Mutant) -> Bisection:
    """What the search finds in a function that is wrong as a whole while a bug is planted."""
    is_of_kernels = mutant.layer.startswith("codegen")
    with own_kernels(mutant) if is_of_kernels else nullcontext(), mutant.plant.planted():
        return search_single(mutant.bug)


def search_single(bug: str) -> Bisection:
    """What the search finds in the function that a bug makes wrong as a whole."""
    chosen = SINGLE[bug]
    with chosen.world():
        return minitorch2.bisect(
            read_anew(chosen.function), *chosen.inputs, earlier=chosen.earlier, path=None,
            backend=chosen.backend, options=chosen.options, frontend=chosen.frontend,
        )  # fmt: skip


def searched(mutant: Mutant) -> Bisection:
    """What the search finds while a bug is planted."""
    if mutant.bug in LATER:
        return searched_later(mutant)
    if mutant.bug in SINGLE:
        return searched_single(mutant)
    with own_kernels(mutant), mutant.plant.planted():
        return search((HAYSTACKS | CAPTURED)[mutant.bug])


def search(haystack: Haystack) -> Bisection:
    """What the search finds in a haystack."""
    torch.manual_seed(0)
    haystack = replace(haystack, needle=read_anew(haystack.needle))
    return minitorch2.bisect(
        haystack, *haystack.inputs(), backend=haystack.backend,
        options={"cache": False} | haystack.options, path=None,
    )  # fmt: skip


def read_anew(function: Function) -> Function:
    """The same function with code of its own: what was noted of the code is not known of it."""
    if not isinstance(function, FunctionType):
        return function
    code, names = function.__code__.replace(), function.__globals__
    return FunctionType(code, names, function.__name__, None, function.__closure__)


def is_small(found: Bisection) -> bool:
    return found.difference is not None and found.text != "" and found.operations[1] <= 12


def is_of_capture(found: Bisection) -> bool:
    return found.blame is not None and found.blame.floor.startswith(("capture", "guards"))


def is_of_single(bug: str, found: Bisection) -> bool:
    """Whether a function that is wrong as a whole is blamed on its floor, and cut."""
    is_blamed = found.blame is not None and found.blame.floor.startswith(SINGLE[bug].floor)
    return is_blamed and found.operations[1] <= 12


def main() -> int:
    word = "".join(sys.argv[1:2])
    wanted = [m for m in MUTANTS if m.bug in SEARCHED and word in m.bug]
    missed = [mutant for mutant in wanted if not shows(mutant)]
    for mutant in MUTANTS:
        if mutant not in wanted and word in mutant.bug:
            print(f"left out: {mutant.name}\n    {why_left_out(mutant)}")
    small = sum(mutant.bug in HAYSTACKS for mutant in wanted)
    whole = sum(mutant.bug in SINGLE for mutant in wanted)
    print(
        f"{len(wanted) - len(missed)} of {len(wanted)} bugs are found: {small} in graphs and "
        f"{whole} in functions, cut down to at most 12 operations or statements, others blamed on "
        f"capture and guards; {len(MUTANTS)} bugs in all"
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
    if mutant.bug in SINGLE:
        return is_of_single(mutant.bug, found)
    return is_small(found) if mutant.bug in HAYSTACKS else is_of_capture(found)


if __name__ == "__main__":
    sys.exit(main())
