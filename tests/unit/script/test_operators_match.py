"""Calls of operators: overloads, conversions, defaults, and the error of the nearest overload."""

import pytest
import torch

from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_type import parse_type
from minitorch2.script.operators.match import convert, emit_operator, match_arguments
from minitorch2.script.operators.registry import operator_of, overloads, register_operator
from minitorch2.script.operators.schema import parse_schema
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.source import NOWHERE


def call(kind, *types, graph=None, **named):
    """Call an operator with parameters of these types; return the node, and the text."""
    graph = graph or Graph()
    args = [graph.add_input("", parse_type(type_)) for type_ in types]
    kwargs = {name: graph.add_input("", parse_type(type_)) for name, type_ in named.items()}
    outputs = emit_operator(graph, kind, args, kwargs, NOWHERE)
    node = graph.block.nodes[-1]
    assert list(outputs) == node.outputs and operator_of(node) is not None
    return node


@pytest.mark.parametrize(
    "kind, types, overload, result",
    [
        ("aten::add", ["Tensor", "Tensor"], "Tensor", "Tensor"),
        ("aten::add", ["Tensor", "int"], "Scalar", "Tensor"),
        ("aten::add", ["int", "int"], "int", "int"),
        ("aten::add", ["int", "float"], "int_float", "float"),
        ("aten::add", ["str", "str"], "str", "str"),
        ("aten::add", ["int[]", "int[]"], "t", "int[]"),
        ("aten::eq", ["int", "bool"], "int", "bool"),
        ("aten::__getitem__", ["Dict(str, Tensor)", "str"], "Dict_str", "Tensor"),
        ("aten::get", ["Dict(int, str)", "int"], "int", "str?"),
        ("aten::items", ["Dict(str, int)"], "str", "(str, int)[]"),
        ("aten::sqrt", ["float"], "float", "float"),
        ("aten::len", ["(int, int)[]"], "t", "int"),
        ("aten::sum", ["Tensor", "int"], "dim_IntList", "Tensor"),
        ("aten::max_pool2d", ["Tensor", "int"], "", "Tensor"),
        ("aten::view", ["Tensor", "int", "int"], "", "Tensor"),
        ("aten::view", ["Tensor", "int"], "", "Tensor"),
        ("aten::zeros", ["int", "int"], "", "Tensor"),
        ("aten::cat", ["(Tensor, Tensor)", "int"], "", "Tensor"),
        ("aten::dropout", ["Tensor", "int", "bool"], "", "Tensor"),
        ("aten::mul", ["Tensor", "bool"], "Scalar", "Tensor"),
        ("aten::arange", ["Tensor"], "", "Tensor"),
        ("aten::to", ["Tensor", "str"], "prim_Device", "Tensor"),
        ("aten::to", ["Tensor", "ScalarType"], "dtype", "Tensor"),
        ("aten::Bool", ["Scalar"], "Scalar", "bool"),
        ("prim::dtype", ["Tensor"], "", "ScalarType"),
        ("aten::eq", ["ScalarType", "ScalarType"], "int", "bool"),
    ],
)  # fmt: skip
def test_the_overload_is_found(kind, types, overload, result):
    node = call(kind, *types)
    assert operator_of(node).schema.overload == overload
    assert str(node.output.type) == result


def test_defaults_are_constants_and_arguments_are_in_order():
    node = call("aten::softmax", "Tensor", dim="int")
    assert [value.constant() for value in node.inputs[2:]] == [None]
    lists = call("aten::conv2d", "Tensor", "Tensor", stride="int")
    kinds = [value.node.kind for value in lists.inputs]
    assert kinds == ["prim::Param"] * 2 + ["prim::Constant"] + 3 * ["prim::ListConstruct"] + [
        "prim::Constant"
    ]
    assert len(lists.inputs[3].node.inputs) == 2 and lists.inputs[6].constant() == 1


def test_names_of_python_functions_are_known():
    node = call("aten::sum", input="Tensor", axis="int", keepdims="bool")
    assert [str(value.type) for value in node.inputs] == ["Tensor", "int[]", "bool", "NoneType"]


def test_an_empty_list_takes_the_element_type_that_is_asked_for():
    graph = Graph()
    empty = graph.insert(graph.create("prim::ListConstruct", (), (parse_type("Tensor[]"),))).output
    (made,) = emit_operator(graph, "aten::zeros", [empty], {}, NOWHERE)
    assert str(made.node.inputs[0].type) == "int[]"


def test_numbers_in_a_literal_are_converted():
    graph = Graph()
    one = graph.constant(1)
    kinds = (parse_type("int[]"),)
    literal = graph.insert(graph.create("prim::ListConstruct", (one,), kinds)).output
    made = convert(graph, literal, parse_type("float[]"), NOWHERE)
    assert str(made.type) == "float[]" and made.node.inputs[0].node.kind == "aten::Float"
    assert convert(graph, one, parse_type("str"), NOWHERE) is None


def test_the_error_shows_the_nearest_overload_argument_by_argument():
    with pytest.raises(ScriptError) as caught:
        call("aten::transpose", "Tensor", "int", "str")
    assert caught.value.cause == (
        "aten::transpose cannot be called with (Tensor, int, str); the nearest schema is "
        "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)\n"
        "  self: fits\n  dim0: fits\n  dim1: wants int, is given str"
    )


@pytest.mark.parametrize(
    "kind, types, named, message",
    [
        ("aten::relu", [], {}, "self: is not given"),
        ("aten::relu", ["Tensor", "Tensor"], {}, "2 positional arguments are too many"),
        ("aten::relu", ["Tensor"], {"inplace": "bool"}, "there is no parameter 'inplace'"),
        ("aten::relu", ["Tensor"], {"self": "Tensor"}, "self: is given twice"),
        ("aten::no_such_operator", [], {}, "there is no operator aten::no_such_operator"),
        ("aten::append", ["int[]", "str"], {}, "is given str"),
    ],
)
def test_bad_calls_say_what_is_wrong(kind, types, named, message):
    with pytest.raises(ScriptError, match=message):
        call(kind, *types, **named)


def test_arguments_of_functions_are_bound():
    schema = parse_schema("f(Tensor x, float scale=2.0, *, int[2] pads=0) -> Tensor")
    graph = Graph()
    x, one = graph.add_input("x"), graph.constant(1)
    given, scale, pads = match_arguments(graph, schema, [x, one], {}, NOWHERE)
    assert given is x and scale.node.kind == "aten::Float" and len(pads.node.inputs) == 2


def test_operators_are_registered_and_replaced():
    register_operator("test::twice(int x) -> int", lambda x: 2 * x)
    (found,) = overloads("test::twice")
    assert found(4) == 8
    register_operator("test::twice(int x) -> int", lambda x: x + x)
    assert len(overloads("test::twice")) == 1
    node = call("test::twice", "int")
    assert operator_of(node).schema.full_name == "test::twice"


def test_operators_of_pytorch_are_called_with_all_arguments():
    add = overloads("aten::add")[0]
    assert add(torch.ones(2), torch.ones(2), 3).tolist() == [4, 4]
