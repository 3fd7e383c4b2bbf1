"""Exported programs in files: ``graph.json`` is what is read, ``code.py`` is for people."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from minitorch2.errors import ExportError
from minitorch2.exporting import as_json
from minitorch2.exporting.container import (
    Container,
    read_tensors,
    refused,
    write_container,
    write_tensors,
)
from minitorch2.exporting.program import ExportedProgram
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.names import qualified_name
from minitorch2.graph.node import Node

if TYPE_CHECKING:
    from minitorch2.exporting.signature import Signature


def save_program(program: ExportedProgram, path: str | os.PathLike[str]) -> None:
    """Write a program to a file.

    Raises:
        ExportError: it holds a function or a value that a file cannot hold.
    """
    tensors, data = write_tensors(program.tensors)
    manifest = {
        "kind": "program",
        "signature": as_json.write_signature(program.signature),
        "tensors": tensors,
    }
    graph = json.dumps(_write_graph(program.graph_module.graph)).encode()
    entries = {"graph.json": graph, "code.py": program.code.encode(), **data}
    write_container(path, Container(manifest, entries))


def program_of(content: Container, path: str | os.PathLike[str]) -> ExportedProgram:
    """Return the program in the content of a file.

    Raises:
        ExportError: the content is damaged, or calls operators that are not here.
    """
    try:
        signature: Signature = as_json.read_signature(content.manifest["signature"])
        graph = _read_graph(json.loads(content.entries["graph.json"]))
        tensors = read_tensors(content.manifest["tensors"], content.entries)
    except ExportError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise refused(f"{path} does not hold what its manifest says: {error!r}") from None
    return ExportedProgram(GraphModule(graph), signature, tensors)


def _write_graph(graph: Graph) -> dict[str, Any]:
    nodes = [_write_node(n) for n in graph.nodes if n.op not in ("placeholder", "output")]
    return {
        "inputs": [node.name for node in graph.placeholders],
        "nodes": nodes,
        "output": as_json.write_value(graph.output_node.args[0], _name_of),
    }


def _name_of(value: Any) -> str | None:
    return value.name if isinstance(value, Node) else None


def _write_node(node: Node) -> dict[str, Any]:
    target = qualified_name(node.target) if callable(node.target) else None
    try:
        if target is None or node.op != "call_function":
            raise ExportError("it is no operator")
        as_json.read_target(target)
    except ExportError:
        raise ExportError(
            f"a file cannot hold the call of {target or node.target}",
            code="export",
            fix="register the function as an operator, with torch.library.custom_op",
            user_line=node.meta.get("source"),
        ) from None
    return {
        "name": node.name,
        "target": target,
        "args": [as_json.write_value(value, _name_of) for value in node.args],
        "kwargs": {key: as_json.write_value(v, _name_of) for key, v in node.kwargs.items()},
    }


def _read_graph(content: dict[str, Any]) -> Graph:
    graph = Graph()
    nodes: dict[str, Any] = {name: graph.placeholder(name) for name in content["inputs"]}
    for each in content["nodes"]:
        args = tuple(as_json.read_value(value, nodes) for value in each["args"])
        kwargs = {key: as_json.read_value(v, nodes) for key, v in each["kwargs"].items()}
        target = as_json.read_target(each["target"])
        nodes[each["name"]] = graph.create_node("call_function", target, args, kwargs, each["name"])
    graph.output(as_json.read_value(content["output"], nodes))
    return graph
