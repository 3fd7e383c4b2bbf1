"""Check a graph against its grammar, before and after each pass.

Each rule is one small function that yields what is wrong; :func:`verify` raises a
``VerificationError`` that names the rule and the node.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from minitorch2.errors import VerificationError
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import OPCODES, Node, nodes_in
from minitorch2.graph.printer import print_python
from minitorch2.graph.scope import loaded_globals
from minitorch2.graph.symbols import free_symbols


class Violation(NamedTuple):
    """A node and what is wrong with it."""

    node: Node
    cause: str


Rule = Callable[[Graph], Iterator[Violation]]


def verify(graph: Graph | GraphModule) -> None:
    """Raise VerificationError (``code`` is the rule's name) for the first rule that is broken."""
    module = graph if isinstance(graph, GraphModule) else None
    nodes = module.graph if module else graph
    assert isinstance(nodes, Graph)
    for rule in RULES:
        for violation in rule(nodes):
            _fail(rule.__name__, violation)
    if module is not None:
        for check in (attributes_exist, prints_as_python):
            for violation in check(module):
                _fail(check.__name__, violation)


def _fail(rule: str, violation: Violation) -> None:
    node = violation.node
    raise VerificationError(
        f"{node.name} ({node.op}): {violation.cause}",
        code=rule.replace("_", "-"),
        user_line=node.meta.get("source"),
    )


def known_opcodes(graph: Graph) -> Iterator[Violation]:
    """Every opcode is one of the six."""
    for node in graph.nodes:
        if node.op not in OPCODES:
            yield Violation(node, f"{node.op!r} is not an opcode")


def targets_fit_opcodes(graph: Graph) -> Iterator[Violation]:
    """call_function has a callable target, all others a string."""
    for node in graph.nodes:
        if node.op == "call_function" and not callable(node.target):
            yield Violation(node, f"target {node.target!r} cannot be called")
        if node.op != "call_function" and not isinstance(node.target, str):
            yield Violation(node, f"target {node.target!r} is not a name")


def methods_have_receivers(graph: Graph) -> Iterator[Violation]:
    """call_method has its receiver as first argument; output has one argument."""
    for node in graph.nodes:
        if node.op == "call_method" and not node.args:
            yield Violation(node, "a method call needs the object as first argument")
        if node.op == "output" and len(node.args) != 1:
            yield Violation(node, f"output takes one argument, not {len(node.args)}")
        if node.op in ("placeholder", "get_attr") and (node.args or node.kwargs):
            yield Violation(node, "takes no arguments")


def placeholders_come_first(graph: Graph) -> Iterator[Violation]:
    """Only get_attr may stand before a placeholder."""
    computing = False
    for node in graph.nodes:
        if node.op == "placeholder" and computing:
            yield Violation(node, "a placeholder follows an operation")
        computing |= node.op not in ("placeholder", "get_attr")


def output_comes_last(graph: Graph) -> Iterator[Violation]:
    """There is exactly one output, at the end, and nobody reads it."""
    nodes = list(graph.nodes)
    for node in nodes[:-1]:
        if node.op == "output":
            yield Violation(node, "an output is followed by other nodes")
    if not nodes or nodes[-1].op != "output":
        raise VerificationError("the graph does not end in an output", code="output-comes-last")
    if nodes[-1].users:
        yield Violation(nodes[-1], "the output has users")


def names_are_unique(graph: Graph) -> Iterator[Violation]:
    """Every name is an identifier and names one node."""
    seen: set[str] = set()
    for node in graph.nodes:
        if node.name in seen or not node.name.isidentifier():
            yield Violation(node, "the name is taken or no identifier")
        seen.add(node.name)


def inputs_are_defined_earlier(graph: Graph) -> Iterator[Violation]:
    """Every node reads only nodes of this graph that stand before it."""
    defined: set[Node] = set()
    for node in graph.nodes:
        if node.graph is not graph:
            yield Violation(node, "belongs to another graph")
        for used in node.all_input_nodes:
            if used not in defined:
                yield Violation(node, f"reads {used.name} before it is computed")
        defined.add(node)


def users_are_exact(graph: Graph) -> Iterator[Violation]:
    """``users`` holds the readers of a node, no more and no fewer."""
    readers: dict[Node, set[Node]] = {node: set() for node in graph.nodes}
    for node in graph.nodes:
        for used in nodes_in((node.args, node.kwargs)):
            readers.setdefault(used, set()).add(node)
    for node in graph.nodes:
        if set(node.users) != readers[node]:
            yield Violation(node, f"users are {list(node.users)}, readers {list(readers[node])}")


def links_are_mutual(graph: Graph) -> Iterator[Violation]:
    """The linked list reads the same in both directions."""
    forward, backward = list(graph.nodes), list(reversed(graph.nodes))
    if forward != backward[::-1]:
        yield Violation(forward[0], "the list of nodes is broken")


def attributes_exist(module: GraphModule) -> Iterator[Violation]:
    """Every get_attr and call_module names an attribute of the GraphModule."""
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            try:
                module.lookup(str(node.target))
            except (KeyError, AttributeError):
                yield Violation(node, f"the module has no attribute {node.target!r}")


def prints_as_python(module: GraphModule) -> Iterator[Violation]:
    """The printed text is Python, and the names that it reads are there."""
    printed = print_python(module.graph, {*dir(GraphModule), *vars(module)})
    last = next(reversed(module.graph.nodes))
    try:
        unbound = _names_from_outside(printed.text) - printed.names.keys()
    except SyntaxError as error:
        yield Violation(last, f"its text is no Python: {error}")
        return
    nodes = module.graph.nodes if unbound else ()
    sizes = {str(s) for node in nodes for s in free_symbols((node.args, node.kwargs))}
    if unbound := unbound - sizes:
        yield Violation(last, f"its text reads {sorted(unbound)}")


@lru_cache(maxsize=8)  # most passes change nothing, and each is asked for the same text
def _names_from_outside(text: str) -> frozenset[str]:
    code = compile(text, "<graph>", "exec")
    imported = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_NAME"}
    return frozenset(loaded_globals(code) - imported - vars(builtins).keys())


RULES: Final[tuple[Rule, ...]] = (
    output_comes_last,
    known_opcodes,
    targets_fit_opcodes,
    methods_have_receivers,
    placeholders_come_first,
    names_are_unique,
    inputs_are_defined_earlier,
    users_are_exact,
    links_are_mutual,
)
