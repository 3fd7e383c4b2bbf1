"""What a script chooses by types: overloads, members of unions, branches that are known."""

import io
import math
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import overload

import pytest
import torch
from torch import Tensor

from minitorch2 import jit
from minitorch2.script.modules import from_nn_module
from minitorch2.script.syntax.errors import ScriptError


def agrees(function, *calls):
    """Compare a script with Python, twice: the second call runs the plan of the first."""
    script = jit.script(function)
    for arguments in (*calls, *calls):
        expected, got = function(*arguments), script(*arguments)
        torch.testing.assert_close(got, expected)
    return script


@overload
def scaled(x: Tensor, by: int) -> Tensor: ...


@overload
def scaled(x: Tensor, by: list[float]) -> Tensor: ...


def scaled(x, by):
    if isinstance(by, int):
        return x * by
    return x * by[0] + by[1]


def uses_overloads(x: Tensor):
    return scaled(x, 3) - scaled(x, [2.0, 0.5])


def of_union(x: Tensor | int | list[int], other: Tensor | float | None = None):
    count = 0
    if isinstance(x, int):
        count = x + 1
    elif isinstance(x, list):
        count = len(x)
    else:
        count = x.dim() + 100
    if other is not None and not isinstance(other, float):
        count += other.dim()
    return count


def never_there():
    import nothing_at_all

    return nothing_at_all


def with_dead_branches(x: Tensor, flag: bool, limit: int | None):
    if flag and not torch.jit.is_scripting():

        def inner(value):
            return value

        x = inner(x)
    if limit is None or torch.jit.is_scripting():
        x = x + 1
    else:
        x = x * never_there()
    if limit is not None and torch.jit.is_scripting():
        x = x * limit
    return x


class Format(StrEnum):
    FIRST = "first"
    LAST = "last"


def moved(x: Tensor, to: Format):
    return x + 1 if to == Format.FIRST else x - 1


def with_enum(x: Tensor):
    return moved(x, Format.FIRST) * moved(x, Format.LAST)


def with_stars(x: Tensor, n: int, parts: list[Tensor]):
    sizes = x.shape[1:]
    y = x.view(-1, *sizes).reshape(*x.shape) + torch.zeros(*sizes)
    keeps = (x.shape[0],) + (1,) * (x.dim() - 1)
    y = y * torch.ones(keeps) + ((1, 2) * 2)[3] + [*sizes, n][-1]
    if n in {1, 2}:
        y = y + math.prod(x.shape) + math.prod([n, *sizes], start=2)
    return y, torch.cat([x, *parts]), torch.einsum("ij,ij->i", x, *parts)


def starred_sum(x: Tensor, dims: list[int]):
    return torch.sum(x, *dims)


def with_declared_list(sizes: list[int] | None):
    if sizes is None:
        sizes = 2, 3
    return sizes[0] + len(sizes)


def always_raises(x: Tensor) -> Tensor:
    raise ValueError("no")


def may_raise(x: Tensor, flag: bool):
    return always_raises(x) if flag else x


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 7


@jit.ignore
def digits(x, tens: int, ones: int) -> int:
    return tens * 10 + ones


@jit.ignore
def lies(x) -> int:
    return x


def calls_python(x: Tensor):
    return Doubled.apply(x) * digits(x, ones=2, tens=1)


def test_an_overload_is_chosen_by_types():
    script = agrees(uses_overloads, (torch.randn(3),))
    calls = [node for node in script.graph.nodes() if node.kind == "prim::CallFunction"]
    schemas = [str(node.attributes["function"].schema) for node in calls]
    assert schemas == [
        "scaled(Tensor x, int by) -> Tensor",
        "scaled(Tensor x, float[] by) -> Tensor",
    ]


def test_isinstance_refines_a_union_on_both_sides():
    script = agrees(
        of_union, (3,), ([1, 2],), ([],), (torch.ones(2),), (1, torch.ones(2)), (1, 2.0)
    )
    assert str(script.schema.arguments[0].type) == "Union(Tensor, int, int[])"
    assert "Optional[Union[Tensor, float]]" in script.code


def test_a_known_right_operand_decides_a_condition():
    script = jit.script(with_dead_branches)
    one = torch.ones(1)
    for flag in (True, False):
        assert [float(script(one, flag, limit)) for limit in (None, 3)] == [2.0, 6.0]


def test_members_of_an_enum_are_known():
    agrees(with_enum, (torch.randn(3),))


def test_stars_of_lists_whose_length_is_not_known():
    agrees(with_stars, (torch.randn(3, 4), 2, [torch.randn(3, 4)]))
    with pytest.raises(ScriptError, match="a star may give both"):
        jit.script(starred_sum)


def test_a_tuple_for_a_name_that_is_declared_as_a_list_becomes_one():
    agrees(with_declared_list, (None,), ([4],))


def test_a_function_that_always_raises_can_be_called():
    script = agrees(may_raise, (torch.ones(2), False))
    with pytest.raises(ValueError, match="no"):
        script(torch.ones(2), True)


def test_python_functions_take_keywords_and_give_what_they_declare():
    x = torch.ones(2, requires_grad=True)
    script = jit.script(calls_python)
    for _ in range(2):
        (gradient,) = torch.autograd.grad(script(x).sum(), x)
        assert gradient.tolist() == [84.0, 84.0]
        assert script(x).equal(calls_python(x))

    def calls_liar(x):
        return lies(x)

    with pytest.raises(TypeError, match="says that it gives int, and gives Tensor"):
        jit.script(calls_liar)(x)


def may_be_set_in_loop(x: Tensor, n: int):
    first, again = True, False
    for i in range(n):
        if first:
            x = x + 10
        if i == 1:
            again = True
            continue
        first = False
    if again:
        x = x * 2
    if not first:
        x = x - 1
    return x


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_known_bool_is_forgotten_where_a_loop_may_set_it(n):
    agrees(may_be_set_in_loop, (torch.ones(2), n))


def waits_while_known(x: Tensor):
    goes_on = True
    while goes_on:
        x = x * 2
        goes_on = bool(x.sum() < 50)
    return x


def test_the_condition_of_a_loop_is_not_known_from_before_it():
    agrees(waits_while_known, (torch.ones(2),))


def joins_and_deletes(x: Tensor, choice: bool):
    flag = False
    if choice:
        flag = True
    if flag:
        x = x + 1
    del flag
    flag = choice
    if flag:
        x = x * 3
    return x


@pytest.mark.parametrize("choice", [False, True])
def test_a_known_bool_is_forgotten_where_branches_join(choice):
    agrees(joins_and_deletes, (torch.ones(2), choice))


def is_distributed():
    return torch.distributed.is_initialized()


def never_synchronizes(x: Tensor, training: bool):
    synchronizes = training and is_distributed()
    if synchronizes:
        world = torch.distributed.get_world_size(torch.distributed.group.WORLD)
        return x / world
    return x * 2


def test_a_function_that_gives_one_bool_decides_a_branch():
    script = agrees(never_synchronizes, (torch.ones(2), True))
    assert "prim::If" not in str(script.graph)


def test_synchronized_normalization_is_scripted_without_a_process_group():
    model = torch.nn.SyncBatchNorm(3)
    script, x = jit.script(model), torch.randn(4, 3, 5)
    torch.testing.assert_close(script.eval()(x), model.eval()(x))


def pools(x: Tensor):
    return torch.nn.functional.max_pool2d(x, kernel_size=3, stride=2)


def test_the_default_of_a_list_of_fixed_length_is_broadcast():
    agrees(pools, (torch.randn(1, 2, 9, 9),))


def sums_with_start(x: list[list[int]], y: list[int], z: Tensor):
    lists = sum(x, []) + sum([[1], y], [0])  # noqa: RUF017
    return lists, sum((1, 2), 10), sum(y, 7), sum((z, z * 2), 1)


def test_a_sum_begins_with_its_start():
    agrees(sums_with_start, ([[1], [], [2, 3]], [4, 5], torch.ones(2)))


def padded(x: Tensor, value: float = 0):
    return torch.nn.functional.pad(x, [1, 2], value=value)


def pads(x: Tensor):
    return padded(x)


def test_an_int_default_of_a_float_is_a_float():
    agrees(pads, (torch.ones(2, 2),))


def scaled_by_list(x: Tensor, factors: list[int] = (2, 3), shift: list[float] | None = (1, 2)):
    assert shift is not None
    return x * factors[0] + factors[1] - shift[1]


def calls_with_default_lists(x: Tensor):
    return scaled_by_list(x)


def test_a_default_tuple_of_a_list_is_a_list():
    """Regression: the caller passed a tuple, and nothing ran `factors[0]`."""
    agrees(calls_with_default_lists, (torch.ones(2),))


def element_of_a_tuple(i: int):
    sizes, total = (2, 3, 5), 0
    for k in range(3):
        total = total * 10 + sizes[k]
    return total, sizes[i]


def test_a_tuple_of_one_type_is_indexed_with_a_number_that_is_not_known():
    script = agrees(element_of_a_tuple, (0,), (-1,))
    with pytest.raises(IndexError):
        script(3)


def features_by_name(x: Tensor) -> dict[str, Tensor]:
    found = OrderedDict()
    found["out"] = x * 2
    return found


def test_an_ordered_dict_is_a_dict():
    x = torch.ones(2)
    assert jit.script(features_by_name)(x)["out"].equal(features_by_name(x)["out"])


def halves_or_pair(x: Tensor, pairs: bool = False, scale=None, finish: Callable | None = None):
    if scale is None:
        scale = 0.5
    if finish is not None:
        x = finish(x)
    if pairs:
        return x * scale, missing_function(x)  # noqa: F821
    return x * scale


def test_a_function_is_compiled_for_the_arguments_that_a_call_knows():
    def calls(x: Tensor, deep: bool):
        return halves_or_pair(x, deep and False) + halves_or_pair(x, scale=None)

    agrees(calls, (torch.ones(2), True))


def test_what_fails_for_all_arguments_and_for_those_of_a_call_is_told_as_for_all():
    def calls(x: Tensor):
        return halves_or_pair(x, True)

    with pytest.raises(ScriptError, match="scale has two types: float"):
        jit.script(calls)


class Encoder(torch.nn.Module):
    """A model that may return what is between its layers."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))

    def encode(
        self, x, most: int | None = None, every: bool = False, watch: Callable | None = None
    ):
        layers = self.layers if most is None else self.layers[:most]
        states = [x]
        for number, layer in enumerate(layers):
            x = layer(x)
            states.append(x)
            if watch is not None:
                watch(number, x)
        return (x, states) if every else x

    def forward(self, x):
        return self.encode(x) - self.encode(x, every=False, most=None)


def test_a_method_is_compiled_for_the_arguments_that_a_call_knows():
    model = Encoder()
    script, x = jit.script(model), torch.randn(3, 2)
    torch.testing.assert_close(script(x), model(x))
    file = io.BytesIO()
    jit.save(script, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(x), model(x))


class Nested(torch.nn.Module):
    """A model whose innermost part is no program, whatever is known."""

    def __init__(self, depth: int):
        super().__init__()
        self.inner = Nested(depth - 1) if depth else None

    def forward(self, x, flag: bool = False, other=None):
        if self.inner is not None:
            return self.inner(x, flag, other=other)
        return missing_function(x)  # noqa: F821


def test_a_function_below_others_that_fail_is_compiled_for_a_call_once(monkeypatch):
    compiled = []
    plain = from_nn_module.compile_tree

    def counted(*arguments, **options):
        compiled.append(options["name"])
        return plain(*arguments, **options)

    monkeypatch.setattr(from_nn_module, "compile_tree", counted)
    with pytest.raises(ScriptError, match="missing_function"):
        jit.script(Nested(8))
    assert len(compiled) <= 9 * 3
