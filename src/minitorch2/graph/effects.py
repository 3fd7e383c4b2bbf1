"""Effects of a node besides computing its value: the facts that passes must respect."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch

from minitorch2.graph.higher_order import HigherOrder
from minitorch2.graph.kernel_launch import KernelLaunch
from minitorch2.graph.names import qualified_name
from minitorch2.graph.node import Node, nodes_in
from minitorch2.native.torch_internals.operators import OpOverload, has_kernel, has_kernel_for_key

_RANDOM_NAMES: Final = frozenset(
    """rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial
    poisson dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu seed
    gumbel_softmax scaled_dot_product_attention multi_head_attention_forward fractional_max_pool2d
    fractional_max_pool3d manual_seed""".split()  # noqa: SIM905  (reads as a table)
)
_IN_PLACE: Final = frozenset(
    name
    for name in vars(operator)
    if name.startswith("i") and not {name[1:], name[1:] + "_"}.isdisjoint(vars(operator))
)
"""Functions of Python's such as ``operator.iadd``, which write to their first operand."""


def is_random(node: Node) -> bool:
    """Return whether the node draws from a random generator."""
    if isinstance(node.target, HigherOrder):
        return any(map(is_random, node.target.nodes()))
    if node.op == "call_function" and isinstance(node.target, OpOverload):
        return draws(node.target, node.args, node.kwargs)
    return node.op in ("call_function", "call_method") and bare_name(node) in _RANDOM_NAMES


@cache
def overload_is_random(target: Any) -> bool:
    """Return whether an operator overload draws from a generator, as its tag says."""
    return torch.Tag.nondeterministic_seeded in target.tags


def draws(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call draws from a generator; attention does only if it has dropout."""
    return overload_is_random(func) and argument_of(func, "dropout_p", args, kwargs) != 0


def argument_of(func: OpOverload, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a call's value for a parameter, or its default; None without such a parameter."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            given = args[position] if position < len(args) else argument.default_value
            return kwargs.get(name, given)
    return None


def is_mutating(node: Node) -> bool:
    """Return whether the node may write to one of its arguments."""
    if "out" in node.kwargs or node.kwargs.get("inplace") or _updates_statistics(node):
        return True
    if node.op == "call_method":
        name = str(node.target)
        return (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"
    if node.op != "call_function":
        return False
    if isinstance(node.target, OpOverload):
        return bool(node.target._schema.is_mutable)
    if isinstance(node.target, KernelLaunch):
        return True
    name = bare_name(node)
    if getattr(node.target, "__module__", "") == "_operator":
        return name in _IN_PLACE or name in ("setitem", "delitem", "call")
    return name.endswith("_") and not name.endswith("__")


def written_by(node: Node) -> Iterator[Node]:
    """Yield the arguments that a mutating node may write to."""
    if not is_mutating(node):
        return
    if isinstance(node.target, KernelLaunch):
        yield from nodes_in([node.args[index] for index in node.target.written()])
        return
    first = None if _updates_statistics(node) else 1
    yield from nodes_in((node.args[:first], node.kwargs.get("out")))


def _updates_statistics(node: Node) -> bool:
    """Return whether the node is a normalization that writes its running mean and variance.

    The argument before momentum decides: ``training`` or, of ``instance_norm``,
    ``use_input_stats``.
    """
    name = bare_name(node)
    if name not in ("batch_norm", "instance_norm") or node.op != "call_function":
        return False
    keyword = "training" if name == "batch_norm" else "use_input_stats"
    given = node.args[5] if len(node.args) > 5 else name == "instance_norm"
    return node.kwargs.get(keyword, given) is not False


def may_be_written(node: Node) -> bool:
    """Return whether a reader of the node may write to its memory, directly or through a view."""
    return any(
        (is_impure(user) and not is_random(user) and user.op != "output")
        or (is_view(user) and may_be_written(user))
        for user in node.users
    )


def is_impure(node: Node) -> bool:
    """Return whether dropping the node could change the program although its value is unread."""
    if node.op in ("placeholder", "output", "call_module"):
        return True  # a submodule may have buffers, hooks or prints
    if node.op == "get_attr":
        return False
    if isinstance(node.target, HigherOrder):
        return any(map(is_impure, node.target.nodes()))
    return is_random(node) or is_mutating(node) or not is_known_pure(node)


def is_deterministic(node: Node) -> bool:
    """Return whether running the node twice on the same values has one result, and no effect."""
    return not is_impure(node) and bare_name(node) not in (
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
    )


def is_view(node: Node) -> bool:
    """Return whether the node's value shares, or may share, memory with one of its arguments."""
    return node.op in ("call_function", "call_method") and _may_view(node)


def may_be_returned(node: Node) -> bool:
    """Return whether the node's memory may reach the caller, as an output or through a view."""
    return any(
        user.op == "output" or (_may_view(user) and may_be_returned(user)) for user in node.users
    )


def _may_view(node: Node) -> bool:
    if isinstance(node.target, OpOverload):
        return any(result.alias_info is not None for result in node.target._schema.returns)
    return not _never_views(bare_name(node))


@cache
def _never_views(name: str) -> bool:
    """Return whether every aten operator of this name returns fresh memory.

    Composite operators may return their argument without saying so (dropout in evaluation).
    """
    name = {"truediv": "div", "and_": "bitwise_and", "or_": "bitwise_or"}.get(name, name)
    packet = getattr(torch.ops.aten, name, None)
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet else []
    return bool(overloads) and not any(
        any(result.alias_info is not None for result in overload._schema.returns)
        or has_kernel_for_key(overload.name(), "CompositeImplicitAutograd")
        for overload in overloads
        if not overload._schema.is_mutable and has_kernel(overload.name())
    )


def is_known_pure(node: Node) -> bool:
    """Return whether a node calls a function of PyTorch that is known to have no effect."""
    if node.op == "call_method":
        return True  # of a tensor; mutating ones end in an underscore
    if isinstance(node.target, OpOverload):
        return node.target.namespace in ("aten", "prims")
    if node.target is operator.getitem or node.target is getattr:
        return True
    name = qualified_name(node.target) if callable(node.target) else None
    return name is not None and name.startswith(_PURE_NAMESPACES) and not _sets_state(name)


_PURE_NAMESPACES: Final = ("torch.", "operator.", "math.")


def _sets_state(name: str) -> bool:
    """Return whether a torch function changes a mode of torch, or is internal to torch."""
    last = name.rpartition(".")[2]
    inner = name.startswith(("torch._C.", "torch.autograd.", "torch.ops.", "torch.utils."))
    return last.startswith(("_", "set_", "enable_")) or (inner and "torch._C._nn." not in name)


def bare_name(node: Node) -> str:
    """Return the name of the target that a node calls, without its module and overload."""
    if isinstance(node.target, OpOverload):
        return str(node.target._schema.name.split("::")[1])
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
