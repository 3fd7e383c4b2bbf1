"""Small programs that bugs of capture and of guards make wrong: each is the needle of a haystack.

A needle reads and writes what no graph has: global variables, classes, hooks, contexts, the world
between two calls. Eager PyTorch gives one result each time, so a needle first undoes its writes.
"""

import contextvars
import random
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Bugs of capture


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


def branches(x: Tensor) -> Tensor:
    if x.sum() > 1e6:
        return x + 1
    return x - 1


def writes_dict(x: Tensor, counts: dict[str, int]) -> Tensor:
    counts["calls"] = 5
    return x * 2


FACTOR = 1


def writes_global_twice(x: Tensor) -> Tensor:
    global FACTOR
    FACTOR = 1
    FACTOR = 2
    return x * FACTOR


def two_gradients(x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    (leaf * 2).sum().backward()
    (leaf * 3).sum().backward()
    assert leaf.grad is not None
    return leaf.grad


HOOKED_LEAF = torch.ones(4, requires_grad=True)
HOOKED_LEAF.register_hook(lambda gradient: gradient * 5)


def hook_of_leaf(x: Tensor) -> Tensor:
    HOOKED_LEAF.grad = None
    (x * HOOKED_LEAF).sum().backward()
    assert HOOKED_LEAF.grad is not None
    return HOOKED_LEAF.grad * 1


MODULE = nn.Linear(4, 4)


def sets_hook_on_module(x: Tensor) -> Tensor:
    handle = MODULE.register_forward_hook(lambda module, args, found: found * 3)
    y: Tensor = MODULE(x)
    handle.remove()
    return y


class Scale:
    by = 1


SCALE = Scale()


def assigns_to_class(x: Tensor) -> Tensor:
    Scale.by = 3
    y = x * SCALE.by
    Scale.by = 1
    return y


VARIABLE = contextvars.ContextVar("variable", default=1)


def sets_context_variable(x: Tensor) -> Tensor:
    VARIABLE.set(3)
    y = x * 2
    print(end="")
    y = y * VARIABLE.get()
    VARIABLE.set(1)
    return y


GENERATOR = random.Random(7)


def seeds_generator(x: Tensor) -> Tensor:
    GENERATOR.seed(3)
    y = x * 2
    print(end="")
    return y * GENERATOR.random()


def text_of_shape(x: Tensor) -> tuple[Tensor, str]:
    return x * 2, str(x.shape)


COUNT = torch.zeros(4)


def checkpoint_with_write(x: Tensor) -> Tensor:
    COUNT.zero_()

    def block(value: Tensor) -> Tensor:
        COUNT.add_(1)
        return (value * 2).sin()

    checkpoint(block, x, use_reentrant=False).sum().backward()
    return COUNT.clone()


class Named:
    """An object whose attributes may have any names."""


def odd_attribute(x: Tensor, named: Named) -> Tensor:
    setattr(named, "a b", 3.0)
    y = x * 2
    print(end="")
    return y * getattr(named, "a b")


def id_behind_break(x: Tensor) -> Tensor:
    known = {id(x): 2.0}
    y = x * 3
    print(end="")
    return y * known.get(id(x), 1.0)


def keeps_gradient_behind_break(x: Tensor) -> Tensor:
    y = x.sin()
    z = (y * 2).sum()
    print(end="")
    y.retain_grad()
    z.backward()
    assert y.grad is not None
    return y.grad


def writes_to_chosen(x: Tensor) -> Tensor:
    y = x * 2
    chosen = max(y[0], y[1])
    chosen.add_(10)
    return y


def may_raise(x: Tensor) -> Tensor:
    try:
        torch.linalg.cholesky(-torch.eye(3))
    except RuntimeError:
        return x + 1
    return x * 2


def handler_reads(x: Tensor, parts: dict[str, Tensor]) -> Tensor:
    times = 3.0
    try:
        y = x * 2
        print(end="")
        y = y + parts["absent"]
    except KeyError:
        y = y * times
    return y


def asks_is_not(x: Tensor) -> Tensor:
    return x * 2 if x is not None and 3 not in (1, 2) else x * 3


def hook_of_computed(x: Tensor) -> tuple[Tensor, Tensor]:
    sums: list[Tensor] = []
    leaf = (x * 2).detach().requires_grad_()
    y = leaf.sin()
    y.register_hook(lambda gradient: sums.append(gradient.sum()))
    y.sum().backward()
    assert leaf.grad is not None
    return leaf.grad, sums[0]


def writes_chosen(x: Tensor, letters: dict[str, str]) -> Tensor:
    letters["chosen"] = random.choice("abcdefgh")
    return x * 2


NO_KEYS = types.MappingProxyType[str, int]({})


def takes_as_key(x: Tensor) -> Tensor:
    try:
        known = {NO_KEYS: 2.0}
    except TypeError:
        return x + 1
    return x * len(known)


def keeps_two_gradients(x: Tensor) -> tuple[Tensor | None, Tensor | None]:
    leaf = torch.ones(4, requires_grad=True)
    y = leaf * 2
    y.retain_grad()
    print(end="")
    (y * x).sum().backward()
    return y.grad, leaf.grad


class Raised(torch.Tensor):
    """Tensors whose sines are one more."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = super().__torch_function__(function, types, args, kwargs or {})
        return found + 1 if function is torch.sin else found


def without_override(x: Tensor) -> Tensor:
    y = x.as_subclass(Raised)
    with torch._C.DisableTorchFunctionSubclass():
        return torch.sin(y)


# Bugs of guards: a first call, perhaps a change of the world, and a second call


def scaled(x: Tensor, n: Any) -> Tensor:
    return x * n + x.shape[0]


def in_order(x: Tensor, parts: dict[str, float]) -> Tensor:
    for number in parts.values():
        x = x.sin() * number
    return x


def applied(x: Tensor, function: Callable[..., Any]) -> Tensor:
    found: Tensor = function(x)
    return found * 2


def doubled(x: Tensor) -> Tensor:
    return x * 2


def halved(x: Tensor) -> Tensor:
    return x / 2


def may_have(x: Tensor, parts: dict[str, float]) -> Tensor:
    return x * (parts["a"] if "a" in parts else 5.0)  # noqa: SIM401 - it asks for the key


def helped(x: Tensor) -> Tensor:
    return doubled(x) + 1


def change_code() -> None:
    doubled.__code__ = halved.__code__


def sines(x: Tensor) -> Tensor:
    return torch.sin(x) * 2


def replace_sine() -> None:
    torch.sin = torch.cos


def attribute_of_function(x: Tensor) -> Tensor:
    factor: float = getattr(halved, "factor", 1.0)
    return x * factor


def set_attribute() -> None:
    halved.factor = 3.0  # type: ignore[attr-defined]


LATE_LEAF = torch.ones(4, requires_grad=True)
ACCUMULATION: list[Any] = []
"""The node that gathers the gradient of the leaf, with the handle of its hook."""


def accumulates(x: Tensor) -> Tensor:
    LATE_LEAF.grad = None
    (x * LATE_LEAF).sum().backward()
    assert LATE_LEAF.grad is not None
    return LATE_LEAF.grad * 1


def hook_accumulation() -> None:
    node: Any = LATE_LEAF.view_as(LATE_LEAF).grad_fn
    accumulation = node.next_functions[0][0]
    handle = accumulation.register_prehook(lambda gradients: (gradients[0] * 3,))
    ACCUMULATION.extend([accumulation, handle])


def asks_for_determinism(x: Tensor) -> Tensor:
    return x * (2.0 if torch.are_deterministic_algorithms_enabled() else 3.0)


def make_deterministic() -> None:
    torch.use_deterministic_algorithms(True)


@contextmanager
def world_kept() -> Iterator[None]:
    """Take back what the functions above change in the world, at the end of the block."""
    sine, code = torch.sin, doubled.__code__
    try:
        yield
    finally:
        torch.sin, doubled.__code__ = sine, code
        vars(halved).clear()
        if ACCUMULATION:
            ACCUMULATION[1].remove()
            ACCUMULATION.clear()
        torch.use_deterministic_algorithms(False)
