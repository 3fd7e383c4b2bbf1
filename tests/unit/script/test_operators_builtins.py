"""Python functions of operators, compared with PyTorch's own where these can be called."""

import itertools

import pytest
import torch

from minitorch2.script.ir.types import BOOL, COMPLEX, FLOAT, INT, NUMBER, STR
from minitorch2.script.operators import builtins
from minitorch2.script.operators.registry import overloads

VALUES = {
    INT: [0, 1, -3, 7],
    FLOAT: [0.0, 0.5, -0.25, 2.5, -1.5],
    BOOL: [True, False],
    COMPLEX: [1j, 0.5 + 0.25j],
    NUMBER: [2, 0.5],
    STR: ["ab", "a b A"],  # PyTorch loops for ever in some methods of ""
}


# PyTorch gives NaN for logarithms to a complex base, counts beyond the end of a part, and gives
# floats where these two schemas say `int` and `Scalar`.
NOT_COMPARED = {
    "aten::count.default", "aten::pow.int_to_int", "prim::min.default", "prim::max.default",
    *(f"aten::log.{a}_{b}" for a, b in itertools.permutations(("int", "float", "complex"), 2)),
    "aten::format.default", "aten::percentFormat.default",
}  # fmt: skip


def published(kind):
    namespace, name = kind.split("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return (
        {f"{kind}.{each}": getattr(packet, each) for each in packet.overloads()} if packet else {}
    )


def pairs():
    """Every overload of scalars that both PyTorch and a Python function compute."""
    for kind in builtins.KINDS:
        theirs = published(kind)
        for ours in overloads(kind):
            full = f"{kind}.{ours.schema.overload or 'default'}"
            scalars = all(argument.type in VALUES for argument in ours.schema.arguments)
            if full in theirs and scalars and full not in NOT_COMPARED:
                yield pytest.param(ours, theirs[full], id=full)


def outcome(function, arguments):
    try:
        return function(*arguments)
    except (ArithmeticError, ValueError, RuntimeError, IndexError, TypeError) as error:
        return error


@pytest.mark.parametrize("ours, theirs", list(pairs()))
def test_python_functions_agree_with_pytorch(ours, theirs):
    """PyTorch is not asked where Python raises: a division of ints by zero ends its process."""
    for arguments in itertools.product(*(VALUES[a.type] for a in ours.schema.arguments)):
        here = outcome(ours.function, arguments)
        if not isinstance(here, Exception):
            there = outcome(theirs, arguments)
            assert isinstance(there, Exception) or same(here, there), (arguments, here, there)


def same(here, there):
    if isinstance(here, tuple):
        return all(map(same, here, there))
    if isinstance(here, float | complex) and isinstance(there, float | complex):
        return bool(torch.allclose(torch.tensor(complex(here)), torch.tensor(complex(there)),
                                   equal_nan=True))  # fmt: skip
    return type(here) is type(there) and here == there


def find(full_name):
    kind = full_name.split(".")[0]
    return next(each for each in overloads(kind) if each.schema.full_name == full_name)


@pytest.mark.parametrize(
    "name, arguments, result",
    [
        ("aten::append.t", ([1], 2), [1, 2]),
        ("aten::pop.t", ([1, 2], -1), 2),
        ("aten::pop.Dict_default_str", ({"a": 1}, "b", 5), 5),
        ("aten::insert.t", ([1], 0, 2), None),
        ("aten::_set_item.t", ([1, 2], 0, 3), [3, 2]),
        ("aten::__getitem__.t", ([1, 2], -1), 2),
        ("aten::slice.t", ([1, 2, 3, 4], None, -1, 2), [1, 3]),
        ("aten::slice.str", ("abcd", 1, None, 1), "bcd"),
        ("aten::index.list_int", ([4, 5], 5), 1),
        ("aten::index.str", ("abcb", "b", 0, -1), 1),
        ("aten::find", ("abc", "c", 0, -1), 2),
        ("aten::count.int", ([1, 1, 2], 1), 2),
        ("aten::count", ("banana", "a", 0, -1), 3),
        ("aten::split.str", ("a,b", ",", -1), ["a", "b"]),
        ("aten::join", ("-", ["a", "b"]), "a-b"),
        ("aten::format", ("{} {}", 1, "x"), "1 x"),
        ("aten::percentFormat", ("%d%s", (1, "x")), "1x"),
        ("aten::keys.str", ({"a": 1},), ["a"]),
        ("aten::values.str", ({"a": 1},), [1]),
        ("aten::items.str", ({"a": 1},), [("a", 1)]),
        ("aten::get.str", ({"a": 1}, "b"), None),
        ("aten::get.default_str", ({"a": 1}, "b", 2), 2),
        ("aten::dict.str", ([("a", 1)],), {"a": 1}),
        ("aten::list.t", ([1],), [1]),
        ("aten::sorted.int", ([2, 1],), [1, 2]),
        ("aten::__range_length", (0, 10, 3), 4),
        ("aten::__derive_index", (2, 1, 3), 7),
        ("aten::sum.int", ([1, 2],), 3),
        ("aten::add.t", ([1], [2]), [1, 2]),
        ("aten::mul.right_", (2, [1]), [1, 1]),
        ("aten::__contains__.str", ({"a": 1}, "a"), True),
        ("aten::len.Tensor", (torch.ones(3, 2),), 3),
        ("aten::Int.str", ("12",), 12),
        ("prim::dtype", (torch.ones(1),), torch.float32),
        ("aten::eq.int", (torch.int8, torch.int8), True),
        ("prim::unchecked_unwrap_optional", (3,), 3),
    ],
)
def test_containers_and_strings(name, arguments, result):
    assert find(name).function(*arguments) == result


def test_lists_change_in_place():
    values = [3, 1]
    find("aten::sort.int").function(values, False)
    find("aten::extend.t").function(values, [5])
    assert find("aten::add_.t").function(values, [6]) is values
    find("aten::Delete.t").function(values, 0)
    find("aten::reverse.t").function(values)
    assert values == [6, 5, 3]


def test_tensors_are_made_of_lists():
    made = find("aten::tensor").function([[1, 2]], torch.float64, None, True)
    assert made.dtype == torch.float64 and made.requires_grad and made.tolist() == [[1, 2]]


def test_kinds_of_the_ir_are_no_operators_of_pytorch():
    assert overloads("prim::ConstantChunk") == overloads("prim::Print") == ()
