"""The engine of autograd inside captured code: ``backward`` and `torch.autograd.grad`.

Capture runs operators on fake tensors under PyTorch's own autograd, so the history of a fake tensor
says to which leaves a gradient flows. The engine's call becomes one node. ``backward`` also stores
the gradients, as PyTorch's own accumulation does::

    loss.backward()    -->    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
                              leaf.grad = gradient | leaf.grad.add_(gradient)      for each leaf

A gradient that flows on to a graph outside of the captured code ends the graph: Python runs the
engine there, through the compiled backward graphs of earlier captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch

from minitorch2.bytecode.guards.accumulators import NoAccumulatorHooks
from minitorch2.bytecode.trackers.base import VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.observed import raise_observed
from minitorch2.bytecode.trackers.operations import iterate
from minitorch2.bytecode.trackers.python_values.constant import NONE, ConstantVariable, is_none
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable, TupleVariable
from minitorch2.bytecode.trackers.torch_values.context import grad_mode
from minitorch2.bytecode.trackers.torch_values.hooks import (
    CHANGING,
    hooks_of_leaf,
    leave_writes_to_python,
    replace_gradient,
    watched,
)
from minitorch2.bytecode.trackers.torch_values.tensor import SPECIAL_METHODS, TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import handles
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.history import ends_of_history, grad_without_hooks, leads_to
from minitorch2.graph.memory_order import memory_order
from minitorch2.graph.symbols import same_sizes
from minitorch2.native.torch_internals.accumulators import is_hooked


@handles(torch.autograd.backward)
def backward(
    evaluator: Evaluator,
    tensors: VariableTracker,
    grad_tensors: VariableTracker = NONE,
    retain_graph: VariableTracker = NONE,
    create_graph: VariableTracker = NONE,
    grad_variables: VariableTracker = NONE,
    inputs: VariableTracker = NONE,
) -> VariableTracker:
    """``torch.autograd.backward(tensors, ...)``"""
    if not is_none(grad_variables):
        unsupported("autograd-engine", "grad_variables, which is deprecated")
    outputs = _tensors(evaluator, tensors)
    leaves = _tensors(evaluator, inputs) or _reached(evaluator, outputs)
    for leaf in leaves:
        if not leaf.get_attribute(evaluator, "is_leaf").truth(evaluator):
            unsupported("autograd-engine", f"the gradient of {leaf.node} flows on to another graph")
        _check_hooks(evaluator, leaf)
    if not leaves:
        unsupported("operator-error", "backward of a tensor that does not require grad")
    kept = _on_the_way(evaluator, evaluator.capture.retaining, outputs, leaves)
    leaves += [each for each in kept if each not in leaves]
    keeps = create_graph.truth(evaluator)
    options = {
        "retain_graph": retain_graph,
        "create_graph": ConstantVariable(keeps),
        "allow_unused": ConstantVariable(True),
    }
    held = [e.fake for e in _several(evaluator, grad_tensors) if isinstance(e, TensorVariable)]

    def store(leaf: TensorVariable, gradient: TensorVariable) -> None:
        if leaf in leaves:
            _arrive(evaluator, leaf, gradient, keeps, held)

    _find_gradients(evaluator, outputs, leaves, grad_tensors, options, store)
    return NONE


def _backward_of(
    tensor: TensorVariable,
    evaluator: Evaluator,
    gradient: VariableTracker = NONE,
    retain_graph: VariableTracker = NONE,
    create_graph: VariableTracker = NONE,
    inputs: VariableTracker = NONE,
) -> VariableTracker:
    """``tensor.backward(gradient, ...)``"""
    return backward(evaluator, tensor, gradient, retain_graph, create_graph, inputs=inputs)


SPECIAL_METHODS["backward"] = _backward_of


@handles(torch.autograd.grad)
def grad(
    evaluator: Evaluator,
    outputs: VariableTracker,
    inputs: VariableTracker,
    grad_outputs: VariableTracker = NONE,
    retain_graph: VariableTracker = NONE,
    create_graph: VariableTracker = NONE,
    only_inputs: VariableTracker = NONE,
    allow_unused: VariableTracker = NONE,
    is_grads_batched: VariableTracker = NONE,
    materialize_grads: VariableTracker = NONE,
) -> VariableTracker:
    """``torch.autograd.grad(outputs, inputs, ...)``"""
    if is_grads_batched.truth(evaluator):
        unsupported("autograd-engine", "a batch of gradients (is_grads_batched)")
    wanted, given = _tensors(evaluator, inputs), _tensors(evaluator, outputs)
    _check_borders(evaluator, given, wanted)
    options = {
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "allow_unused": allow_unused,
        "materialize_grads": materialize_grads,
    }
    kept = _on_the_way(evaluator, evaluator.capture.retaining, given, wanted)
    later: list[tuple[TensorVariable, TensorVariable]] = []

    def note(tensor: TensorVariable, gradient: TensorVariable) -> None:
        later.extend([(tensor, gradient)] if tensor in kept else [])

    found = _find_gradients(evaluator, given, [*wanted, *kept], grad_outputs, options, note)
    results = found[: len(wanted)]
    held = [each.fake for each in results if isinstance(each, TensorVariable)]
    for tensor, gradient in later:
        _arrive(evaluator, tensor, gradient, create_graph.truth(evaluator), held)
    return TupleVariable(results)


def _on_the_way(
    evaluator: Evaluator,
    tensors: Iterable[TensorVariable],
    outputs: Sequence[TensorVariable],
    leaves: Sequence[TensorVariable],
) -> list[TensorVariable]:
    """Return those tensors that gradients flow through between the outputs and the leaves."""
    heads, ends = ([each.in_history.fake for each in group] for group in (outputs, leaves))
    return [
        each
        for each in tensors
        if any(leads_to(head, each.fake) for head in heads)
        and any(leads_to(each.fake, end) for end in ends)
    ]


def _find_gradients(
    evaluator: Evaluator,
    outputs: Sequence[TensorVariable],
    wanted: Sequence[TensorVariable],
    grad_outputs: VariableTracker,
    options: dict[str, VariableTracker],
    arrive: Callable[[TensorVariable, TensorVariable], None],
) -> list[VariableTracker]:
    """Return the gradient of each tensor that is wanted, behind its hooks.

    A hook that is not a graph runs here. If it changes a gradient on the way, the engine runs once
    more for the tensors behind it, and finds the changed gradient in that place.

    Args:
        arrive: is called for each gradient, in the order in which the engine finds them.
    """
    seen = _on_the_way(evaluator, watched(evaluator.capture), outputs, wanted)
    changes = bool(seen) and evaluator.capture.frame.hooks == CHANGING
    often = {**options, "retain_graph": ConstantVariable(True)} if changes else options
    results, changed = dict[TensorVariable, VariableTracker](), []
    tensors = waiting = list(dict.fromkeys([*wanted, *seen]))
    while waiting:
        with noting_arrival(waiting) as arrived:
            found = _run_engine(evaluator, outputs, waiting, grad_outputs, often)
        results |= zip(waiting, found, strict=True)
        order, waiting = [waiting[place] for place in arrived], []
        for count, tensor in enumerate(order, 1):
            hooked = _hooked(evaluator, tensor, gradient := results[tensor], options)
            others = [each for each in wanted if each is not tensor]
            if tensor not in seen or not _on_the_way(evaluator, [tensor], outputs, others):
                results[tensor] = hooked  # else the engine gives what it found in front of hooks
            arrive(tensor, hooked)
            if tensor in seen and hooked is not gradient:
                changed.append(replace_gradient(evaluator, tensor, hooked))
                waiting = order[count:]
                break
    for handle in changed:
        handle.call_method(evaluator, "remove", [], {})
    if changes:  # what was retained is freed, so the node stays though nobody reads it
        found = _run_engine(evaluator, outputs, tensors, grad_outputs, options)
        next(e for e in found if isinstance(e, TensorVariable)).node.meta["impure"] = True
    return [results[tensor] for tensor in wanted]


def _run_engine(
    evaluator: Evaluator,
    outputs: Sequence[TensorVariable],
    inputs: Sequence[TensorVariable],
    grad_outputs: VariableTracker,
    options: dict[str, VariableTracker],
) -> list[VariableTracker]:
    """Record the node; return the gradient of each input, None where it has none."""
    capture = evaluator.capture
    if capture.graph is not capture.root:
        unsupported("autograd-engine", "gradients are computed inside a part that may run again")
    leave_writes_to_python(capture)
    for handle in capture.hooked:
        handle.check_same()
    given = {name: value for name, value in options.items() if not is_none(value)}
    weights = [] if is_none(grad_outputs) else [_several(evaluator, grad_outputs)]
    heads, leaves = ([each.in_history for each in group] for group in (outputs, inputs))
    args = [ListVariable(heads), ListVariable(leaves), *map(ListVariable, weights)]
    reals = [leaf.real(evaluator) for leaf in inputs]
    hooked = any(real is not None and real._backward_hooks for real in reals)
    function = grad_without_hooks if hooked else torch.autograd.grad
    with torch.autograd.set_multithreading_enabled(False):
        made = capture.call_in_graph(evaluator, "call_function", function, args, given)
    return made.items(evaluator)


# Which leaves -------------------------------------------------------------------------------------


def _reached(evaluator: Evaluator, outputs: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Return the leaves to which a gradient flows, in the order of the graph's inputs."""
    capture = evaluator.capture
    leave_writes_to_python(capture)
    reached = {id(fake) for fake in ends_of_history(t.in_history.fake for t in outputs)}
    known = dict.fromkeys([*(entry.tracker for entry in capture.inputs), *capture.leaves])
    tensors = (tracker for tracker in known if isinstance(tracker, TensorVariable))
    found = [tensor for tensor in tensors if id(tensor.in_history.fake) in reached]
    if len(found) < len(reached):
        unsupported("autograd-engine", "the gradient flows to a tensor that is no input")
    return found


def _check_borders(
    evaluator: Evaluator, outputs: Sequence[TensorVariable], inputs: Sequence[TensorVariable]
) -> None:
    """Check that no gradient asked for flows through a graph outside of the captured code.

    The graph outside may begin at another input of the captured code, but not at a value that the
    captured code has computed.
    """
    entered = [each for each in inputs if each.source is not None]
    for border in _reached(evaluator, outputs):
        others = [each for each in entered if each is not border]
        if others and not border.get_attribute(evaluator, "is_leaf").truth(evaluator):
            unsupported("autograd-engine", f"the gradient flows on through {border.node}")


# The way of a gradient ----------------------------------------------------------------------------


@contextmanager
def noting_arrival(leaves: Sequence[TensorVariable]) -> Iterator[list[int]]:
    """Yield the positions of leaves in the order in which the engine finds their gradients."""
    arrived: list[int] = []
    fakes = [leaf.in_history.fake for leaf in leaves]
    hooks = [
        fake.register_hook(lambda _, place=place: arrived.append(place))  # type: ignore[no-untyped-call]
        for place, fake in enumerate(fakes)
    ]
    try:
        yield arrived
    finally:
        for hook in hooks:
            hook.remove()


def _arrive(
    evaluator: Evaluator,
    leaf: TensorVariable,
    gradient: TensorVariable,
    keeps: bool,
    held: list[FakeTensor],
) -> None:
    """Do the work of the engine at a leaf whose gradient is found; `held` holds it from now on."""
    if getattr(gradient.fake, "meta", gradient.fake).layout is not torch.strided:
        unsupported("tensor-layout", f"the gradient of {leaf.node} is sparse")
    _accumulate(evaluator, leaf, gradient, keeps, held)
    held.append(gradient.fake)
    for hook in _hooks(evaluator, leaf, "_post_accumulate_grad_hooks"):
        if not is_none(hook.call(evaluator, [leaf], {})):
            raise_observed(RuntimeError, "Tensor post accumulate grad hooks should return None.")


def _hooked(
    evaluator: Evaluator,
    tensor: TensorVariable,
    gradient: VariableTracker,
    options: dict[str, VariableTracker],
) -> TensorVariable:
    """Return the gradient that the hooks of a tensor make of one, in the engine's grad mode."""
    (found,) = _tensors(evaluator, gradient)
    hooks = [
        *_hooks(evaluator, tensor, "_backward_hooks"),
        *watched(evaluator.capture).get(tensor, ()),
    ]
    for hook in hooks:
        with grad_mode(evaluator, options["create_graph"].truth(evaluator)):
            changed = hook.call(evaluator, [found], {})
        if not is_none(changed):
            (found,) = _tensors(evaluator, changed)
    return found


def _check_hooks(evaluator: Evaluator, leaf: TensorVariable) -> None:
    """Refuse hooks that see the gradient of a leaf being accumulated, but for the leaf's own.

    Hooks on the node that accumulates are C++ code, such as that of `DistributedDataParallel`, or
    cannot be listed: Python's engine calls them.
    """
    real = evaluator.capture.input_value(leaf)
    if real is None or leaf.source is None:
        return
    if is_hooked(real):
        unsupported("autograd-engine", f"hooks see the gradient of {leaf.node} being accumulated")
    evaluator.capture.add_guard(NoAccumulatorHooks(leaf.source))


def _hooks(evaluator: Evaluator, leaf: TensorVariable, name: str) -> list[VariableTracker]:
    """Return the hooks of a leaf, those from outside guarded to stay the same."""
    hooks = hooks_of_leaf(leaf, evaluator, name)
    if is_none(hooks):
        return []
    return iterate(evaluator, hooks.call_method(evaluator, "values", [], {}))


def _accumulate(
    evaluator: Evaluator,
    leaf: TensorVariable,
    gradient: TensorVariable,
    keeps: bool,
    held: Sequence[FakeTensor],
) -> None:
    """Store a gradient or add it to the one that is there.

    Args:
        keeps: whether it can be differentiated again.
        held: tensors that other code refers to: a gradient that is one of them is copied.
    """
    present = leaf.get_attribute(evaluator, "grad")
    is_kept = leaf in evaluator.capture.retaining  # of a tensor that is no leaf: a new sum
    if isinstance(present, TensorVariable) and not keeps and not is_kept:
        with grad_mode(evaluator, False):
            present.call_method(evaluator, "add_", [gradient], {})
        return
    stored: VariableTracker = gradient
    if isinstance(present, TensorVariable):
        stored = present.call_method(evaluator, "add", [gradient], {})
    elif not is_none(present):
        unsupported("autograd-engine", f"the gradient of {leaf.node} is no plain tensor")
    elif keeps or any(gradient.fake is other for other in held) or not _fits(gradient, leaf):
        stored = _laid_out(evaluator, gradient, leaf)
    evaluator.capture.side_effects.store_attribute(leaf, "grad", stored)


def _fits(gradient: TensorVariable, leaf: TensorVariable) -> bool:
    """Return whether a gradient has PyTorch's memory layout: as a dense leaf, or contiguous."""
    if memory_order(leaf.fake) is None:
        return gradient.fake.is_contiguous()
    steps = zip(gradient.fake.shape, gradient.fake.stride(), leaf.fake.stride(), strict=True)
    return all(size == 1 or same_sizes([own], [wanted]) for size, own, wanted in steps)


def _laid_out(
    evaluator: Evaluator, gradient: TensorVariable, leaf: TensorVariable
) -> VariableTracker:
    """Return a copy of a gradient that has PyTorch's memory layout for the leaf."""
    order = memory_order(leaf.fake)
    form = ConstantVariable(torch.contiguous_format)
    if order is None or order == sorted(order):
        return gradient.call_method(evaluator, "clone", [], {"memory_format": form})
    inverse = sorted(range(len(order)), key=order.__getitem__)
    turned = gradient.call_method(evaluator, "permute", [_constants(order)], {})
    dense = turned.call_method(evaluator, "clone", [], {"memory_format": form})
    return dense.call_method(evaluator, "permute", [_constants(inverse)], {})


# Arguments ----------------------------------------------------------------------------------------


def _constants(numbers: Sequence[int]) -> TupleVariable:
    return TupleVariable([ConstantVariable(number) for number in numbers])


def _several(evaluator: Evaluator, value: VariableTracker) -> list[VariableTracker]:
    """Return the elements of an argument that is a tensor, several, or None."""
    if is_none(value):
        return []
    return [value] if isinstance(value, TensorVariable) else iterate(evaluator, value)


def _tensors(evaluator: Evaluator, value: VariableTracker) -> list[TensorVariable]:
    """Return the elements of an argument, each of which must be a tensor."""
    parts = _several(evaluator, value)
    for part in parts:
        if not isinstance(part, TensorVariable):
            unsupported("autograd-engine", f"the engine is asked about {part}")
    return parts  # type: ignore[return-value]
