"""Graphs as Python text: what `.code` shows, and what files hold (overview, "Python Printer").

The text is the language that the front end reads, with a few more names: ``ops.prim``,
``unchecked_cast``, ``uninitialized``, ``fork``, ``CONSTANTS``. So an old file means the same as
long as the language does, whatever becomes of the graphs.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from minitorch2.errors import ArchiveError
from minitorch2.script.archive.annotation_text import annotation_text, class_name_of
from minitorch2.script.archive.inlining import inlined_values
from minitorch2.script.archive.literals import literal_text
from minitorch2.script.archive.mode_classes import mode_call
from minitorch2.script.ir.graph import Block, Graph, Node, Value, is_none
from minitorch2.script.ir.print_ir import hint_of
from minitorch2.script.ir.types import (
    FLOAT,
    ClassType,
    DictType,
    EnumType,
    ListType,
    TupleType,
    Type,
    type_of,
)
from minitorch2.script.modules.module import ModuleType
from minitorch2.script.operators.registry import operator_of
from minitorch2.script.operators.schema import NO_DEFAULT, FunctionSchema

_CONTAINER_NAMES: Final[dict[Any, str]] = {ListType: "list", TupleType: "tuple", DictType: "dict"}
_MOST_TRIPS: Final = 2**63 - 1
_CASTS: Final = {
    "aten::Bool": "bool",
    "aten::Int": "int",
    "aten::Float": "float",
    "aten::str": "str",
}
_RESERVED: Final = frozenset(
    {"torch", "ops", "CONSTANTS", "self", "print", "bool", "int", "float", "str", "len", "range"}
    | {"annotate", "unchecked_cast", "uninitialized", "fork", "wait", "getattr", "isinstance"}
    | {"inf", "nan", "Tensor", "List", "Dict", "Optional", "Tuple", "Any", "Device", "__torch__"}
)


@dataclass
class References:
    """Collect what the text of functions refers to, while they are printed.

    Attributes:
        constants: values of ``CONSTANTS.c0`` and so on.
        functions: script functions that are called, by their qualified names.
        types: types that are named: module types and named tuples.
        texts: classes that are text already, by their qualified names.
    """

    constants: list[Any] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    types: dict[str, Type] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def constant(self, value: Any) -> str:
        """Return the text that stands for a value that has no literal."""
        for index, known in enumerate(self.constants):
            if known is value:
                return f"CONSTANTS.c{index}"
        self.constants.append(value)
        return f"CONSTANTS.c{len(self.constants) - 1}"

    def function(self, function: Any) -> str:
        """Return the qualified name of a script function; two functions get different names."""
        base = class_name_of(function.name)
        name, count = base, 0
        while self.functions.get(name, function) is not function:
            name, count = f"{base}_{count}", count + 1
        self.functions[name] = function
        return name

    def annotation(self, type_: Type) -> str:
        """Return a type as text, and note the classes in it."""
        match type_:
            case ClassType(name, _) | EnumType(name, _) | TupleType(_, _, str() as name):
                self.types.setdefault(class_name_of(name), type_)
        for inner in type_.contained():
            self.annotation(inner)
        return annotation_text(type_)


def print_code(
    graph: Graph,
    schema: FunctionSchema,
    *,
    references: References | None = None,
    is_method: bool = False,
    self_type: str = "",
    name: str = "",
) -> str:
    """Return a graph as the text of a Python function.

    Args:
        graph: what is printed.
        schema: name, parameters with defaults, and results.
        references: collects what the text refers to.
        is_method: whether the first input of the graph is the module.
        self_type: the module's class, as files say; `.code` leaves it out.
        name: the function's name; the schema's if it is empty.
    """
    printer = CodePrinter(graph, References() if references is None else references)
    parameters = printer.parameters(schema, is_method=is_method, self_type=self_type)
    return printer.function(name or schema.name.rpartition(".")[2], parameters, schema)


class CodePrinter:
    """Prints one graph."""

    def __init__(self, graph: Graph, references: References, used: Iterable[str] = ()) -> None:
        self.graph = graph
        self.references = references
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.expressions: dict[Value, str] = {}
        self.used = set(used)
        self.inlined = inlined_values(graph)

    # -- the function ---------------------------------------------------------------------------

    def parameters(self, schema: FunctionSchema, *, is_method: bool, self_type: str) -> list[str]:
        """Return the parameters as texts; the module's first."""
        inputs = self.graph.inputs
        texts = []
        if is_method:
            self.names[inputs[0]] = "self"
            texts.append(f"self: {self_type}" if self_type else "self")
            inputs = inputs[1:]
        arguments = schema.arguments[-len(inputs) :] if inputs else ()
        for value, argument in zip(inputs, arguments, strict=True):
            text = f"{self._name(value)}: {self.references.annotation(value.type)}"
            if argument.default is not NO_DEFAULT:
                text += f"={self._literal(_as_type(argument.default, argument.type))}"
            texts.append(text)
        return texts

    def function(self, name: str, parameters: list[str], schema: FunctionSchema) -> str:
        """Return the text of the graph as a function."""
        listed = ",\n    ".join(parameters)
        self._block(self.graph.block, "  ")
        head = f"def {name}({listed}) -> {self._result_type(schema)}:"
        return "\n".join([head, *self.lines, f"  return {self._result()}"]) + "\n"

    def _result_type(self, schema: FunctionSchema) -> str:
        types = [value.type for value in self.graph.outputs]
        if len(schema.returns) == 1 and len(types) == 1:
            types = [schema.returns[0].type]
        if len(types) == 1:
            return self.references.annotation(types[0])
        return self.references.annotation(TupleType(tuple(types))) if types else "NoneType"

    def _result(self) -> str:
        texts = [self._text(value) for value in self.graph.outputs]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})" if texts else "None"

    # -- values -----------------------------------------------------------------------------------

    def _name(self, value: Value) -> str:
        """Return the variable of a value; the first call chooses it."""
        if value not in self.names:
            hint = re.sub(r"\W", "_", hint_of(value.name))
            self.names[value] = self._free_name(hint)
        return self.names[value]

    def _free_name(self, hint: str) -> str:
        taken = self.used | _RESERVED
        plain = hint and not hint[0].isdigit() and not keyword.iskeyword(hint)
        base = hint if plain else f"_{hint}" if hint else "_"
        name, count = base, 0
        while name in taken or name == "_":
            name, count = f"{base}{count}", count + 1
        self.used.add(name)
        return name

    def _text(self, value: Value) -> str:
        """Return what stands for a value where it is used."""
        if value.node.kind == "prim::Constant":
            return self._literal(value.node.attributes["value"])
        return self.expressions.get(value) or self._name(value)

    def _literal(self, value: Any) -> str:
        if isinstance(value, Enum):
            return f"{self.references.annotation(type_of(value))}.{value.name}"
        text = literal_text(value)
        return self.references.constant(value) if text is None else text

    def _texts(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self._text, values))

    # -- statements -------------------------------------------------------------------------------

    def _block(self, block: Block, indent: str) -> None:
        for node in block.nodes:
            if node.kind == "prim::Exit":  # the body of its `with` ends
                if self.lines[-1].lstrip().startswith("with "):
                    self.lines.append(f"{indent}pass")
                indent = indent[:-2]
                continue
            self._node(node, indent)
            if node.kind == "prim::Enter":
                indent += "  "

    def _node(self, node: Node, indent: str) -> None:
        if node.kind == "prim::Constant":
            return
        statement = self._STATEMENTS.get(node.kind)
        if statement is not None:
            statement(self, node, indent)
            return
        text = self._expression(node)
        if len(node.outputs) == 1 and node.output in self.inlined:
            self.expressions[node.output] = text
            return
        targets = ", ".join(map(self._name, node.outputs))
        comma = "," if len(node.outputs) == 1 and node.kind in _UNPACKS else ""
        self.lines.append(f"{indent}{targets}{comma} = {text}" if targets else f"{indent}{text}")

    def _if(self, node: Node, indent: str) -> None:
        self.lines.append(f"{indent}if {self._text(node.inputs[0])}:")
        names = list(map(self._name, node.outputs))
        inner = indent + "  "
        for index, block in enumerate(node.blocks):
            if index:
                self.lines.append(f"{indent}else:")
            start = len(self.lines)
            self._block(block, inner)
            for name, output, value in zip(names, node.outputs, block.outputs, strict=True):
                differs = any(b.outputs[output.index].type != output.type for b in node.blocks)
                type_ = self.references.annotation(output.type)
                declared = f" : {type_}" if differs and not index else ""
                self.lines.append(f"{inner}{name}{declared} = {self._text(value)}")
            if len(self.lines) == start:
                self.lines.append(f"{inner}pass")

    def _loop(self, node: Node, indent: str) -> None:
        (body,) = node.blocks
        trips, condition, *initial = node.inputs
        index, *carried = body.inputs
        for output, value, start in zip(node.outputs, carried, initial, strict=True):
            self.names[value] = self._name(output)
            declared = ""
            if start.type != output.type or is_none(start):
                declared = f" : {self.references.annotation(output.type)}"
            self.lines.append(f"{indent}{self._name(output)}{declared} = {self._text(start)}")
        always = condition.constant() is True and body.outputs[0].constant() is True
        if always:
            self.lines.append(f"{indent}for {self._name(index)} in range({self._text(trips)}):")
            self._loop_body(body, indent + "  ", [])
        else:
            self._while(node, indent)

    def _while(self, node: Node, indent: str) -> None:
        """Print a loop with a condition; one with a number of trips as well counts them."""
        (body,) = node.blocks
        trips, condition = (self._text(value) for value in node.inputs[:2])
        go = self._free_name("")
        counts = node.inputs[0].constant() != _MOST_TRIPS or bool(body.inputs[0].uses)
        after = [go]
        if counts:
            index = self._name(body.inputs[0])
            self.lines.append(f"{indent}{index} = 0")
            condition = f"torch.__and__(torch.gt({trips}, 0), {condition})"
        self.lines.append(f"{indent}{go} = {condition}")
        self.lines.append(f"{indent}while {go}:")
        self._loop_body(body, indent + "  ", after, trips if counts else "")

    def _loop_body(self, body: Block, indent: str, go: list[str], trips: str = "") -> None:
        self._block(body, indent)
        targets = [self._name(value) for value in body.inputs[1:]]
        texts = [self._text(value) for value in body.outputs]
        pairs = [*zip(go, texts, strict=False), *zip(targets, texts[1:], strict=True)]
        if trips:
            index, following = self._name(body.inputs[0]), self._free_name("")
            self.lines.append(f"{indent}{following} = torch.add({index}, 1)")
            more = f"torch.__and__(torch.lt({following}, {trips}), {texts[0]})"
            pairs = [(go[0], more), *pairs[1:], (index, following)]
        if not pairs:
            self.lines.append(f"{indent}pass")
            return
        left, right = (", ".join(part) for part in zip(*pairs, strict=True))
        self.lines.append(f"{indent}{left} = {right}")

    def _set_attribute(self, node: Node, indent: str) -> None:
        target, value = map(self._text, node.inputs)
        self.lines.append(f"{indent}{target}.{node.attributes['name']} = {value}")

    def _fork(self, node: Node, indent: str) -> None:
        """Print a call on another thread: files have a function without parameters for it."""
        name = self._free_name("__forked_function")
        is_method = "name" in node.attributes
        call = self._call_method(node) if is_method else self._call_function(node)
        self.lines += [f"{indent}def {name}():", f"{indent}  return {call}"]
        self.lines.append(f"{indent}{self._name(node.output)} = fork({name})")

    def _enter(self, node: Node, indent: str) -> None:
        """Begin a `with`; `_block` ends it."""
        (context,) = node.inputs
        if context.node.kind != "prim::PythonOp" and not isinstance(context.type, ClassType):
            raise ArchiveError(
                "a context that is known only when the code runs cannot be held by a file",
                fix="write a `with` for each of the contexts",
                user_line=node.range,
            )
        name = f" as {self._name(node.output)}" if node.output.uses else ""
        self.lines.append(f"{indent}with {self._text(context)}{name}:")

    def _python(self, node: Node, indent: str) -> None:
        """Print the making of a grad mode or an `autocast`: files hold no other Python code."""
        found = mode_call(node)
        if found is None:
            raise _no_file_holds(node)
        mode, arguments = found
        self.references.texts[mode.name] = mode.text
        texts = (self._text(a) if isinstance(a, Value) else self._literal(a) for a in arguments)
        made, listed = self._name(node.output), ", ".join(texts)
        self.lines.append(f"{indent}{made} = {mode.name}.__new__({mode.name})")
        self.lines.append(f"{indent}{self._free_name('')} = ({made}).__init__({listed})")

    def _set_grad_mode(self, node: Node, indent: str) -> None:
        """Print what sets the grad mode and gives the one before."""
        name = self._name(node.output)
        self.lines.append(f"{indent}{name} = torch.is_grad_enabled()")
        self.lines.append(f"{indent}torch.set_grad_enabled({self._text(node.inputs[0])})")

    # -- expressions --------------------------------------------------------------------------

    def _expression(self, node: Node) -> str:
        special = self._EXPRESSIONS.get(node.kind)
        if special is not None:
            return special(self, node)
        if node.kind in _CASTS and len(node.inputs) == 1:
            return f"{_CASTS[node.kind]}({self._text(node.inputs[0])})"
        namespace, _, name = node.kind.partition("::")
        prefix = "torch" if namespace == "aten" else f"ops.{namespace}"
        return f"{prefix}.{name}({self._arguments(node)})"

    def _arguments(self, node: Node) -> str:
        operator = operator_of(node)
        if operator is None:
            return self._texts(node.inputs)
        arguments = operator.schema.arguments
        texts = list(map(self._text, node.inputs))
        named = (f"{a.name}=" if a.kwarg_only else "" for a in arguments)
        rest = texts[len(arguments) :]
        return ", ".join([*map("".join, zip(named, texts, strict=False)), *rest])

    def _list(self, node: Node) -> str:
        text = f"[{self._texts(node.inputs)}]"
        type_ = node.output.type
        element = type_.element if isinstance(type_, ListType) else None
        if node.inputs and all(value.type == element for value in node.inputs):
            return text
        return f"annotate({self.references.annotation(type_)}, {text})"

    def _dict(self, node: Node) -> str:
        texts = list(map(self._text, node.inputs))
        pairs = zip(texts[::2], texts[1::2], strict=True)
        text = "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        return f"annotate({self.references.annotation(node.output.type)}, {text})"

    def _tuple(self, node: Node) -> str:
        texts = self._texts(node.inputs)
        type_ = node.output.type
        if isinstance(type_, TupleType) and type_.name:
            return f"{self.references.annotation(type_)}({texts})"
        return f"({texts},)" if len(node.inputs) == 1 else f"({texts})"

    def _unpacked(self, node: Node) -> str:
        return self._text(node.inputs[0])

    def _tuple_index(self, node: Node) -> str:
        return f"({self._text(node.inputs[0])})[{self._text(node.inputs[1])}]"

    def _tuple_slice(self, node: Node) -> str:
        start, end = node.attributes["start"], node.attributes["end"]
        return f"({self._text(node.inputs[0])})[{start}:{end}]"

    def _get_attribute(self, node: Node) -> str:
        name, target = node.attributes["name"], self._text(node.inputs[0])
        if name.isidentifier() and not keyword.iskeyword(name):
            return f"{target}.{name}"
        return f'getattr({target}, "{name}")'

    def _of_member(self, node: Node) -> str:
        return f"({self._text(node.inputs[0])}).{node.kind.removeprefix('prim::Enum').lower()}"

    def _object(self, node: Node) -> str:
        name = self.references.annotation(node.output.type)
        return f"{name}.__new__({name})"

    def _call_method(self, node: Node) -> str:
        name, owner = node.attributes["name"], getattr(node.inputs[0].type, "owner", None)
        if isinstance(owner, ModuleType) and name in owner.hooks:
            function = self.references.function(owner.methods[name])  # files call hooks so
            return f"{function}({self._texts(node.inputs)})"
        target, *arguments = map(self._text, node.inputs)
        return f"({target}).{name}({', '.join(arguments)})"

    def _call_function(self, node: Node) -> str:
        name = self.references.function(node.attributes["function"])
        return f"{name}({self._texts(node.inputs)})"

    def _cast(self, node: Node) -> str:
        type_ = self.references.annotation(node.output.type)
        return f"unchecked_cast({type_}, {self._text(node.inputs[0])})"

    def _uninitialized(self, node: Node) -> str:
        return f"uninitialized({self.references.annotation(node.output.type)})"

    def _isinstance(self, node: Node) -> str:
        types = [
            _CONTAINER_NAMES.get(type_) or self.references.annotation(type_)
            for type_ in node.attributes["types"]
        ]
        choice = types[0] if len(types) == 1 else f"({', '.join(types)})"
        return f"isinstance({self._text(node.inputs[0])}, {choice})"

    def _to_list(self, node: Node) -> str:
        annotation = self.references.annotation(node.output.type)
        return f"annotate({annotation}, ({self._text(node.inputs[0])}).tolist())"

    def _print(self, node: Node) -> str:
        return f"print({self._texts(node.inputs)})"

    _STATEMENTS: Final[dict[str, Callable[[CodePrinter, Node, str], None]]] = {
        "prim::If": _if,
        "prim::Loop": _loop,
        "prim::SetAttr": _set_attribute,
        "prim::fork": _fork,
        "prim::Enter": _enter,
        "prim::PythonOp": _python,
        "prim::SetGradEnabled": _set_grad_mode,
    }
    _EXPRESSIONS: Final[dict[str, Callable[[CodePrinter, Node], str]]] = {
        "prim::ListConstruct": _list,
        "prim::DictConstruct": _dict,
        "prim::TupleConstruct": _tuple,
        "prim::TupleUnpack": _unpacked,
        "prim::ListUnpack": _unpacked,
        "prim::TupleIndex": _tuple_index,
        "prim::TupleSlice": _tuple_slice,
        "prim::CreateObject": _object,
        "prim::EnumName": _of_member,
        "prim::EnumValue": _of_member,
        "prim::GetAttr": _get_attribute,
        "prim::CallMethod": _call_method,
        "prim::CallFunction": _call_function,
        "prim::unchecked_cast": _cast,
        "prim::number": _unpacked,
        "prim::Uninitialized": _uninitialized,
        "prim::tolist": _to_list,
        "prim::isinstance": _isinstance,
        "prim::Print": _print,
    }


_UNPACKS: Final = frozenset({"prim::TupleUnpack", "prim::ListUnpack"})


def _no_file_holds(node: Node) -> ArchiveError:
    name = getattr(node.attributes["function"], "__qualname__", "a Python function")
    return ArchiveError(
        f"{name} is called as Python code, which no file can hold",
        fix="mark it as `unused` instead of `ignore`",
        user_line=node.range,
    )


def _as_type(default: Any, wanted: Type) -> Any:
    """Return a default in the form of its parameter's type: torch.jit compares their types."""
    if type(default) is int and wanted == FLOAT:
        return float(default)
    if isinstance(wanted, ListType) and type(default) in (int, float, bool):
        return [default]
    return default
