"""Hooks on the nodes in which autograd accumulates the gradients of leaves.

`DistributedDataParallel` sets such hooks. No attribute tells of them, and asking for the node makes
one. So they are looked up in PyTorch's memory, as `tensor_layout` finds the metadata of tensors::

    autograd data of a leaf --(node)--> node --(hooks)--> vectors of hooks: empty if begin == end
                            --(owner, count)--> strong references: the node is dead if 0

If a node or its hooks look unfamiliar, every leaf counts as one with hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from minitorch2.native.memory import read_int, read_word, read_words
from minitorch2.native.torch_internals.tensor_layout import (
    AUTOGRAD_BYTES,
    OBJECT_WORDS,
    UnfamiliarLayoutError,
    tensor_layout,
)

_WORD: Final = 8
NODE_WORDS: Final = 40
"""Words of a node that are looked at; a node that accumulates is longer than that."""
OWNER_BYTES: Final = 16
"""Bytes in which references are counted: behind the pointer to an object's functions."""


@dataclass(frozen=True)
class NodeLayout:
    """The places of fields, as offsets in bytes.

    Attributes:
        autograd: the place of the pointer to the autograd data, in the C++ tensor.
        node: the place of the weak pointer to the node, in the autograd data.
        owner: the place of the pointer beside it to the counter of references: the node itself, or
            an owner.
        count: the place of the number of strong references, in the owner.
        hooks: the places of vectors of hooks, in the node.
    """

    autograd: int
    node: int
    owner: int
    count: int
    hooks: tuple[int, ...]

    def is_hooked(self, tensor: torch.Tensor) -> bool:
        """Return whether the node of a leaf is alive and has hooks."""
        data = read_word(tensor._cdata + self.autograd)
        owner = read_word(data + self.owner) if data else 0
        if not owner or not read_int(owner + self.count):
            return False
        node = read_word(data + self.node)
        return any(
            read_word(node + place) != read_word(node + place + _WORD) for place in self.hooks
        )


@cache
def node_layout() -> NodeLayout | None:
    """Return the layout of PyTorch's accumulators; None if it cannot be found."""
    known = tensor_layout()
    try:
        with _disable_current_modes(), torch.enable_grad():
            return None if known is None else _probe(known.autograd)
    except UnfamiliarLayoutError:
        return None


def is_hooked(tensor: torch.Tensor) -> bool:
    """Return whether a hook may see the gradient of a leaf when it is accumulated."""
    layout = node_layout()
    return layout is None or layout.is_hooked(tensor)


def accumulator(leaf: torch.Tensor) -> Any:
    """Return the node that accumulates the gradient of a leaf; it is made if there is none."""
    function: Any = leaf.view_as(leaf).grad_fn
    return function.next_functions[0][0]


def _probe(autograd: int) -> NodeLayout:
    leaf = torch.empty(2, requires_grad=True)
    data = read_word(leaf._cdata + autograd)
    before = read_words(data, AUTOGRAD_BYTES // _WORD)
    node = accumulator(leaf)
    after = read_words(data, AUTOGRAD_BYTES // _WORD)
    new = _new(before, after)
    if len(new) not in (1, 2) or after[new[0]] not in read_words(id(node), OBJECT_WORDS):
        raise UnfamiliarLayoutError("the node that accumulates")
    count = _counter(after[new[-1]], leaf)
    setters = [node.register_hook, node.register_prehook]
    hooks = tuple(_vector(after[new[0]], setter) for setter in setters)
    found = NodeLayout(autograd, _WORD * new[0], _WORD * new[-1], count, hooks)
    is_seen = found.is_hooked(leaf)
    del node, setters
    if not is_seen or found.is_hooked(leaf) or found.is_hooked(torch.empty(2)):
        raise UnfamiliarLayoutError("hooks of the node that accumulates")
    return found


def _new(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Return the indices of the words that were 0 before and are not 0 now."""
    pairs = enumerate(zip(before, after, strict=True))
    return [i for i, (old, new) in pairs if not old and new]


def _counter(owner: int, leaf: torch.Tensor) -> int:
    """Return the offset of the counter that is one more while a graph leads to the node."""
    places = range(0, OWNER_BYTES, 4)
    before = [read_int(owner + place) for place in places]
    view = leaf.view_as(leaf)
    during = [read_int(owner + place) for place in places]
    del view
    counts = zip(places, before, during, strict=True)
    found = [place for place, old, new in counts if new == old + 1]
    if len(found) != 1 or read_int(owner + found[0]) != before[found[0] // 4]:
        raise UnfamiliarLayoutError("references to the node that accumulates")
    return found[0]


def _vector(node: int, setter: Callable[[Any], Any]) -> int:
    """Return the offset of the vector to which a hook is added: three words."""
    before = read_words(node, NODE_WORDS)
    setter(lambda *_: None)
    new = _new(before, read_words(node, NODE_WORDS))
    if len(new) != 3 or new != [*range(new[0], new[0] + 3)]:
        raise UnfamiliarLayoutError("a vector of hooks")
    return _WORD * new[0]
