"""A module whose attributes are constants of its code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from minitorch2.script.frontend.compile import CompiledFunction
from minitorch2.script.ir.graph import Graph, Value
from minitorch2.script.ir.types import is_module_type
from minitorch2.script.modules.from_nn_module import unique_name
from minitorch2.script.modules.module import Methods, ModuleType
from minitorch2.script.modules.module_value import make_module_type, self_input
from minitorch2.script.modules.script_module import ScriptModule
from minitorch2.script.passes.eliminate_dead_code import eliminate_dead_code
from minitorch2.script.passes.freeze_module import freeze_module
from minitorch2.script.passes.pipeline import prepare


def frozen(module: ScriptModule, preserved: frozenset[str] = frozenset()) -> ScriptModule:
    """Return a module with the code of `forward`, in which attributes are constants.

    Args:
        module: what is frozen; it stays as it is.
        preserved: names of attributes that stay attributes. What the code sets stays one, too.
    """
    method = module._type.methods["forward"]
    graph = method.inlined_graph
    with _preserving(graph, preserved):
        freeze_module(graph, module)
        prepare(graph)
        freeze_module(graph, module)
        eliminate_dead_code(graph)
    compiled = replace(method.up_to_date(), graph=graph)
    made = ScriptModule(module_type_of_graph(module._type, compiled))
    made.training = module.training
    for name in made._type.modules:
        made._modules[name] = module._modules[name]
    for name, slot in made._type.slots.items():
        tables = {"parameter": made._parameters, "buffer": made._buffers}
        table = tables.get(slot.kind, made.__dict__)
        table[name] = getattr(module, name)  # type: ignore[index]
    return made


@contextmanager
def _preserving(graph: Graph, names: frozenset[str]) -> Iterator[None]:
    """Let attributes of the first input be inputs of the graph during the block."""
    inputs: dict[Value, str] = {}
    for node in list(graph.nodes()):
        is_own = node.kind == "prim::GetAttr" and node.inputs[0] is graph.inputs[0]
        if is_own and node.attributes["name"] in names:
            value = graph.add_input(node.output.name, node.output.type)
            inputs[value] = node.attributes["name"]
            node.output.replace_all_uses_with(value)
            node.destroy()
    module_type = graph.inputs[0].type
    yield
    for value, name in inputs.items():
        if not is_module_type(graph.inputs[0].type):
            graph.add_input("self", module_type)
            graph.inputs.insert(0, graph.inputs.pop())
        read = graph.create("prim::GetAttr", (graph.inputs[0],), (value.type,))
        read.attributes["name"] = name
        read.insert_after(graph.block.parameters)
        value.replace_all_uses_with(read.output)
        graph.block.remove_input(graph.inputs.index(value))


def module_type_of_graph(original: ModuleType | None, compiled: CompiledFunction) -> ModuleType:
    """Return a module type whose only method `forward` is a graph.

    Args:
        original: says of what kind the attributes are that the graph still reads.
        compiled: the code; its first input, if it is a module, becomes one of the new type.
    """
    graph = compiled.graph
    name = "__torch__.PlaceholderModule" if original is None else original.name
    compiled = replace(compiled, name=f"{name}.forward")
    methods = Methods(lambda method: compiled if method == "forward" else None, names=("forward",))
    made = make_module_type(unique_name(name), methods)
    inputs = graph.inputs
    reads_module = bool(inputs) and is_module_type(inputs[0].type)
    if original is not None and reads_module:
        inputs[0].type = made.class_type
        read = {n.attributes.get("name") for n in graph.nodes() if inputs[0] in n.inputs}
        made.slots = {key: slot for key, slot in original.slots.items() if key in read}
        made.modules = {key: type_ for key, type_ in original.modules.items() if key in read}
    self_input(graph, made)
    return made
