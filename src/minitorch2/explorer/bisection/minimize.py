"""Cut a failing program down, while it fails in the same way.

    cut ::= return one result only, or an earlier value
         |  make values inputs             so that what computed them goes
         |  replace a node by its operand
         |  drop an item of a list, an input's gradient, an input
         |  make dimensions shorter
         |  take numbers that a seed gives

This is delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
2002) with cuts that are meaningful in a graph. Each cut is a trial; those that fail otherwise, or
that eager PyTorch refuses, are undone. Cuts are repeated until none helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, Final

import torch

from minitorch2.explorer.bisection.inputs import seeded
from minitorch2.explorer.bisection.programs import Program
from minitorch2.graph.effects import is_impure
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.interpreter import Interpreter
from minitorch2.graph.node import Node, nodes_in

SECONDS: Final = 300.0
"""The time after which the smallest program so far is taken."""
SHORT: Final = (2, 3, 5)
"""The lengths that long dimensions are cut to, the first that fails."""

Fails = Callable[[Program], bool]
Cuts = Callable[[Program], Iterator[Program]]


class Minimizer:
    """The search for a small program.

    Attributes:
        trials: the number of programs that were tried.
    """

    def __init__(self, fails: Fails, seconds: float = SECONDS) -> None:
        self.trials = 0
        self._fails = fails
        self._end = monotonic() + seconds

    def run(self, program: Program) -> Program:
        """Return a program that fails and that no cut makes smaller."""
        before = None
        while before != (before := _measure(program)) and monotonic() < self._end:
            for cuts in CUTS:
                program = self._greedy(program, cuts)
        return program

    def _greedy(self, program: Program, cuts: Cuts) -> Program:
        """Take each cut that still fails; begin again with the smaller program."""
        for _ in range(program.size + len(program.inputs) + 4):
            smaller = next((each for each in cuts(program) if self._still_fails(each)), None)
            if smaller is None:
                break
            program = smaller
        return program

    def _still_fails(self, program: Program) -> bool:
        if monotonic() > self._end:
            return False
        self.trials += 1
        return self._fails(program)


def _measure(program: Program) -> tuple[int, ...]:
    tensors = [each for each in program.inputs if isinstance(each, torch.Tensor)]
    elements, gradients = sum(t.numel() for t in tensors), sum(t.requires_grad for t in tensors)
    arbitrary = sum(_is_arbitrary(*each) for each in enumerate(program.inputs))
    results = len(program.graph.output_node.all_input_nodes)
    return program.size, results, elements, gradients, arbitrary


def one_result(program: Program) -> Iterator[Program]:
    """Return one result instead of several; none at all if only writes count."""
    results = list(dict.fromkeys(nodes_in(program.graph.output_node.args)))
    if len(results) > 1:
        for result in (*results, None):
            yield returning(program, result)


def returning(program: Program, result: Node | None) -> Program:
    """Return the program with one result, or none, and without what only others need."""
    cut = program.copy()
    nodes = {node.name: node for node in cut.graph.nodes}
    kept = () if result is None else (nodes[result.name],)
    cut.graph.output_node.update_args((kept,), {})
    return without_dead(cut)


def earlier_end(program: Program) -> Iterator[Program]:
    """Return an earlier value, of a half, a quarter, an eighth ... of the nodes less."""
    calls = [node for node in program.graph.nodes if node.op.startswith("call")]
    step = max(len(calls) // 2, 1)
    while step and len(calls) > 1:
        end = len(calls) - 1 - step
        if end >= 0:
            yield _cut_behind(program, calls[end])
        step //= 2


def _cut_behind(program: Program, last: Node) -> Program:
    """Return the values that are alive behind a node, and drop all later nodes."""
    cut = program.copy()
    nodes = list(cut.graph.nodes)
    position = next(i for i, node in enumerate(nodes) if node.name == last.name)
    kept, later = nodes[: position + 1], set(nodes[position + 1 :])
    alive = [n for n in kept if n.op.startswith("call") and later.intersection(n.users)]
    ends = [n for n in alive if isinstance(n.meta.get("val"), torch.Tensor)]
    cut.graph.output_node.update_args((tuple(ends),), {})
    for node in reversed(nodes[position + 1 : -1]):
        cut.graph.erase(node)
    return without_dead(cut)


class _Values(Interpreter):
    """An interpreter that keeps the value that each node had when it was computed."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.kept: dict[str, Any] = {}

    def run_node(self, node: Node) -> Any:
        value = super().run_node(node)
        is_tensor = isinstance(value, torch.Tensor)
        self.kept[node.name] = _copied(value) if is_tensor else value
        return value


def _copied(value: torch.Tensor) -> torch.Tensor:
    """Return a copy of a value in its own strides."""
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    overlaps = any(s == 0 and n > 1 for n, s in zip(value.shape, value.stride(), strict=True))
    copy = value.detach().clone() if overlaps else copy.copy_(value.detach())
    return copy.requires_grad_(value.requires_grad)


def _values_of(program: Program) -> dict[str, Any]:
    """Return the values of all nodes in eager PyTorch; none if it refuses the program."""
    interpreter = _Values(GraphModule(program.graph))
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            interpreter.run(*program.arguments())
    except Exception:  # noqa: BLE001 - then no value is known
        return {}
    return interpreter.kept


def values_as_inputs(program: Program) -> Iterator[Program]:
    """Make the values of a run of nodes inputs: first of many nodes, at last of one."""
    calls = [node for node in program.graph.nodes if node.op.startswith("call")]
    values = _values_of(program)
    length = max(len(calls) // 2, 1)
    while length and len(calls) > 1:
        for start in range(0, len(calls), length):
            cut = _with_inputs(program, calls[start : start + length], values)
            if cut is not None and cut.size < program.size:
                yield cut
        length //= 2


def _with_inputs(program: Program, run: Sequence[Node], values: dict[str, Any]) -> Program | None:
    """Return the program with inputs for the values of these nodes that later nodes read."""
    cut, names = program.copy(), {node.name for node in run}
    nodes = [node for node in cut.graph.nodes if node.name in names]
    first = next(node for node in cut.graph.nodes if node.op != "placeholder")
    for node in nodes:
        read = [user for user in node.users if user.name not in names]
        value = values.get(node.name)
        if not read or not isinstance(value, (torch.Tensor, bool, int, float)):
            continue
        if isinstance(value, torch.Tensor):
            with cut.graph.inserting_before(first):
                given = cut.graph.placeholder(node.name)
            given.meta = {"val": node.meta.get("val")}
            cut.inputs.append(value)
            node.replace_all_uses_with(given)
        elif not _varies(node):
            node.replace_all_uses_with(value)
    for node in reversed(nodes):
        if not node.users:
            cut.graph.erase(node)
    return without_dead(cut)


def _varies(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def operands(program: Program) -> Iterator[Program]:
    """Replace a node by an operand of the same shape and dtype, or leave out a write."""
    for node in reversed(list(program.graph.nodes)):
        if node.op.startswith("call"):
            for operand in node.all_input_nodes:
                if _form(operand) == _form(node) or (not node.users and is_impure(node)):
                    yield _replaced(program, node.name, operand.name)
                    break


def _form(node: Node) -> object:
    value = node.meta.get("val")
    return (tuple(map(str, value.shape)), value.dtype) if isinstance(value, torch.Tensor) else node


def _replaced(program: Program, name: str, operand: str) -> Program:
    cut = program.copy()
    nodes = {node.name: node for node in cut.graph.nodes}
    nodes[name].replace_all_uses_with(nodes[operand])
    cut.graph.erase(nodes[name])
    return without_dead(cut)


def shorter_lists(program: Program) -> Iterator[Program]:
    """Drop an item of a list of operands, as `cat` has one."""
    for node in program.graph.nodes:
        for position, argument in enumerate(node.args if node.op.startswith("call") else ()):
            if isinstance(argument, (list, tuple)) and len(list(nodes_in(argument))) > 1:
                for item in range(len(argument)):
                    yield _without_item(program, node.name, position, item)


def _without_item(program: Program, name: str, position: int, item: int) -> Program:
    cut = program.copy()
    node = next(each for each in cut.graph.nodes if each.name == name)
    args = [*node.args]
    args[position] = type(args[position])([*args[position][:item], *args[position][item + 1 :]])
    node.update_args(tuple(args), dict(node.kwargs))
    return without_dead(cut)


def fewer_gradients(program: Program) -> Iterator[Program]:
    """Let an input need no gradient; first all of them."""
    wanting = [i for i, each in enumerate(program.inputs) if getattr(each, "requires_grad", False)]
    for chosen in ([wanting] if len(wanting) > 1 else []) + [[i] for i in wanting]:
        cut = program.copy()
        for number in chosen:
            cut.inputs[number] = _copied(cut.inputs[number]).detach()
        yield cut


def shorter_dimensions(program: Program) -> Iterator[Program]:
    """Cut all dimensions of one length to a shorter one."""
    tensors = [each for each in program.inputs if isinstance(each, torch.Tensor)]
    for length in sorted({n for each in tensors for n in each.shape if n > 2}, reverse=True):
        for short in SHORT:
            if short < length:
                cut = program.copy()
                cut.inputs = [_shortened(each, length, short) for each in program.inputs]
                yield cut


def _shortened(value: Any, length: int, short: int) -> Any:
    if not isinstance(value, torch.Tensor) or length not in value.shape:
        return value
    order = sorted(range(value.dim()), key=value.stride, reverse=True)
    part = value.detach()[tuple(slice(short if n == length else n) for n in value.shape)]
    back = [order.index(dim) for dim in range(value.dim())]
    dense = part.permute(order).contiguous().permute(back)
    return dense.requires_grad_(value.requires_grad)


def numbers_of_a_seed(program: Program) -> Iterator[Program]:
    """Replace the numbers of inputs by those of a seed: first all of them, then each."""
    numbers = [i for i, value in enumerate(program.inputs) if _is_arbitrary(i, value)]
    for chosen in ([numbers] if len(numbers) > 1 else []) + [[i] for i in numbers]:
        cut = program.copy()
        for number in chosen:
            cut.inputs[number] = seeded(number, cut.inputs[number])
        yield cut


def _is_arbitrary(number: int, value: object) -> bool:
    """Return whether an input has other numbers than those that its seed would give."""
    given = seeded(number, value)
    return isinstance(value, torch.Tensor) and given is not None and not torch.equal(given, value)


def without_dead(program: Program) -> Program:
    """Remove what nobody reads: nodes that write nothing, and inputs."""
    for node in reversed(list(program.graph.nodes)):
        if node.op.startswith("call") and not node.users and not is_impure(node):
            program.graph.erase(node)
    places = program.graph.placeholders
    kept = [(node, value) for node, value in zip(places, program.inputs, strict=True) if node.users]
    for node in places:
        if not node.users:
            program.graph.erase(node)
    program.inputs = [value for _, value in kept]
    return program


CUTS: Final[tuple[Cuts, ...]] = (
    one_result, earlier_end, values_as_inputs, operands, shorter_lists, fewer_gradients,
    shorter_dimensions, numbers_of_a_seed,
)  # fmt: skip
"""The cuts, in the order in which they help most."""
