"""One operation of a graph.

Grammar of the graph IR (the six opcodes of FX)::

    graph    ::= node* output
    node     ::= name = placeholder(target)                       an input
              |  name = get_attr(target)                          a constant of the GraphModule
              |  name = call_function(target, args, kwargs)       target is a callable
              |  name = call_method(target, args, kwargs)         target is a method name of args[0]
              |  name = call_module(target, args, kwargs)         target is a dotted attribute name
              |  name = output(args)                              args[0] is what the graph returns
    argument ::= node | scalar | expr | tuple | list | dict | slice of arguments

``expr`` is a SymPy expression of size symbols (``graph/symbols/``). A symbol is bound by the
placeholder whose size it is. PyTorch's counterpart is ``torch.fx.Node``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from minitorch2.graph.containers import items_in

if TYPE_CHECKING:
    from minitorch2.graph.graph import Graph

Argument: TypeAlias = Any  # see the grammar above; Python has no closed recursive type for it
Target: TypeAlias = "str | Callable[..., Any]"

OPCODES: Final = (
    "placeholder",
    "get_attr",
    "call_function",
    "call_method",
    "call_module",
    "output",
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The line of the user's program that a node comes from.

    Attributes:
        node: name of the captured node, where a log has asked for it (`minitorch2.explorer`).
    """

    file: str
    line: int
    text: str
    function: str = ""
    node: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        """Return the line, in characters that any file can hold: a file's name may have others."""
        text = f"File: {self.file}:{self.line}, code: {self.text}"
        return text.encode("utf-8", "backslashreplace").decode()

    def comment(self) -> str:
        """Return the line as a comment of a generated text."""
        return f"# {' '.join(str(self).split())}"


class Node:
    """One operation: ``name = op(target, *args, **kwargs)``.

    ``users`` holds the nodes that read this one, exactly (a dict used as an ordered set).
    ``meta["val"]`` is the fake value, ``meta["source"]`` the :class:`SourceLine`.
    Nodes are made by :class:`~minitorch2.graph.graph.Graph`, never directly.
    """

    __slots__ = (
        "graph",
        "name",
        "op",
        "target",
        "_args",
        "_kwargs",
        "users",
        "meta",
        "prev",
        "next",
    )

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> None:
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self.prev: Node = self
        self.next: Node = self
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self.update_args(args, kwargs or {})

    def __repr__(self) -> str:
        return self.name

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments. Assign a new tuple to change them: ``users`` follow."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self.update_args(args, self._kwargs)

    @property
    def kwargs(self) -> Mapping[str, Argument]:
        """Keyword arguments. Assign a new mapping to change them: ``users`` follow."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Argument]) -> None:
        self.update_args(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The distinct nodes this one reads, in order of first appearance."""
        return list(dict.fromkeys(nodes_in((self._args, self._kwargs))))

    def readers(self, passes: Callable[[Node], bool]) -> Iterator[Node]:
        """Yield the users; in place of one that only passes the value on, its own readers."""
        for user in self.users:
            yield from user.readers(passes) if passes(user) else (user,)

    def update_args(self, args: tuple[Argument, ...], kwargs: Mapping[str, Argument]) -> None:
        """Replace the arguments and keep ``users`` of old and new inputs exact."""
        for node in self.all_input_nodes:
            node.users.pop(self, None)
        self._args = tuple(args)
        self._kwargs = dict(kwargs)
        for node in self.all_input_nodes:
            node.users[self] = None

    def replace_input(self, old: Node, new: Argument) -> None:
        """Read ``new`` wherever this node read ``old``."""

        def swap(node: Node) -> Argument:
            return new if node is old else node

        self.update_args(map_nodes(self._args, swap), map_nodes(self._kwargs, swap))

    def replace_all_uses_with(self, new: Argument) -> list[Node]:
        """Make every user read ``new`` instead; return those users."""
        users = list(self.users)
        for user in users:
            user.replace_input(self, new)
        return users


def map_nodes(value: Argument, function: Callable[[Node], Argument]) -> Argument:
    """Rebuild an argument with ``function`` applied to each node in it."""
    if isinstance(value, Node):
        return function(value)
    return map_items(value, lambda item: map_nodes(item, function))


def map_items(value: Argument, function: Callable[[Argument], Argument]) -> Argument:
    """Rebuild a tuple, list, dict or slice with ``function`` applied to each item.

    Any other argument is returned as it is.
    """
    if isinstance(value, tuple):
        items = map(function, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [function(item) for item in value]
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*map(function, items_in(value)))
    return value


def nodes_in(value: Argument) -> Iterator[Node]:
    """Yield the nodes of an argument, with repeats, left to right."""
    if isinstance(value, Node):
        yield value
    for item in items_in(value):
        yield from nodes_in(item)


def append_with_inputs(
    root: Node,
    done: set[Node],
    order: list[Node],
    inputs: Callable[[Node], list[Node]] = lambda node: node.all_input_nodes,
) -> None:
    """Append to ``order`` all inputs of ``root`` that are not done, then ``root``; mark them done.

    Depth first, left to right, without recursion: chains can be longer than Python's stack.
    """
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [used for used in inputs(node) if used not in done]
        if missing and node not in done:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            order.append(node)
