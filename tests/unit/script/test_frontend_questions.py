"""`jit.isinstance` with types of elements, and `tolist` and `item` with annotations."""

import io
import typing
from typing import Any, Optional

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.script.syntax.errors import ScriptError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
F = torch.tensor([1.0, 2.0])


def of_any(x: Any) -> str:
    if torch.jit.isinstance(x, list[str]):
        return x[0]
    if torch.jit.isinstance(x, dict[str, list[int]]):
        return str(x["a"][0])
    if torch.jit.isinstance(x, tuple[int, str]):
        return x[1]
    if torch.jit.isinstance(x, list[Tensor]):
        return str(len(x))
    if torch.jit.isinstance(x, Optional[int]):  # noqa: UP045
        return "an int or None"
    return "none of these"


def of_a_union(x: list[str] | list[int] | int) -> int:
    if torch.jit.isinstance(x, list[str]):
        return len(x[0])
    if torch.jit.isinstance(x, list[int]):
        return x[0] + 1
    return x


def of_an_optional(x: list[int] | None) -> int:
    if torch.jit.isinstance(x, list[int]):
        return x[0]
    return -1


def one_of_two(x: Any) -> bool:
    return torch.jit.isinstance(x, (list[str], list[int]))


def asserted(x: Any) -> int:
    assert torch.jit.isinstance(x, list[int])
    return x[0]


def negated(x: Any) -> int:
    if not torch.jit.isinstance(x, list[int]):
        return 0
    return x[0]


def with_another_condition(x: Any) -> int:
    if torch.jit.isinstance(x, list[int]) and len(x) > 1:
        return x[1]
    return -1


def known(x: list[int]) -> bool:
    return torch.jit.isinstance(x, list[int])


def floats(x: Tensor) -> list[float]:
    a: list[float] = x.tolist()
    a.append(1.0)
    return a


def matrix(x: Tensor) -> list[list[int]]:
    return x.tolist()


def number(x: Tensor) -> float:
    a: float = x.tolist()
    return a + 1


def truths(x: Tensor):
    return torch.jit.annotate(list[bool], x.tolist())


def returned_item(x: Tensor) -> int:
    return x.item()


def annotated_item(x: Tensor):
    a = torch.jit.annotate(int, x.item())
    return a + 1


BOTH = [
    *[(of_any, (x,)) for x in (["a"], {"a": [3]}, (1, "z"), [F], None, 5, 2.5, [1])],
    *[(of_a_union, (x,)) for x in (["abc"], [4], 7)],
    *[(of_an_optional, (x,)) for x in ([3], None)], *[(one_of_two, (x,)) for x in ([1], [1.5])],
    (asserted, ([3],)), (negated, ([3],)), (negated, ("x",)), (known, ([1],)),
    (with_another_condition, ([1, 5],)), (with_another_condition, (3,)),
    (floats, (F,)), (floats, (F.double(),)), (matrix, (torch.ones(2, 2).long(),)),
    (matrix, (torch.ones(2, 0).long(),)), (number, (F[0],)), (truths, (F > 1,)),
    (returned_item, (F[0].long(),)), (annotated_item, (F[0].long(),)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), BOTH)
def test_types_of_elements_and_of_numbers_are_those_of_torch(function, arguments):
    expected = function(*arguments)
    scripted, peer = jit.script(function), torch.jit.script(function)
    for found in (scripted(*arguments), scripted(*arguments), peer(*arguments)):
        assert (type(found), found) == (type(expected), expected)


def item_as_float(x: Tensor) -> float:
    a: float = x.item()
    return a


def item_as_bool(x: Tensor) -> bool:
    a: bool = x.item()
    return a


def item_as_int(x: Tensor) -> int:
    a: int = x.item()
    return a + 1


@pytest.mark.parametrize(
    ("function", "given"),
    [(item_as_float, F[:1]), (item_as_bool, F[0] > 0), (item_as_int, F[1].long())],
)
def test_item_has_the_type_of_its_annotation(function, given):
    """`torch.jit` refuses these."""
    assert jit.script(function)(given) == function(given)


@pytest.mark.parametrize(
    ("function", "given"),
    [(floats, F.long()), (matrix, F.long()), (item_as_int, F[0]), (item_as_int, F.long())],
)
def test_a_tensor_that_holds_something_else_is_refused(function, given):
    with pytest.raises(RuntimeError):
        jit.script(function)(given)


def unannotated(x: Tensor):
    return x.tolist()


def test_a_list_without_an_annotation_is_refused_with_the_fix():
    with pytest.raises(ScriptError, match="annotate it"):
        jit.script(unannotated)


@pytest.mark.parametrize(
    ("value", "kind", "answer"),
    [
        ([1], list[int], True), (["a"], list[int], False), ([], list[int], True),
        ({"a": [1]}, dict[str, list[int]], True), ((1, "a"), tuple[int, str], True),
        (None, int | None, True), ([F], (list[int], list[Tensor]), True), (1.5, int, False),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*empty.*")
def test_python_asks_for_types_of_elements(value, kind, answer):
    assert jit.isinstance(value, kind) == torch.jit.isinstance(value, kind) == answer


def of_ours(x: Any) -> int:
    return x[0] if jit.isinstance(x, list[int]) else 0


def test_a_script_asks_with_our_name():
    assert [jit.script(of_ours)(x) for x in ([7], ["a"], 3)] == [7, 0, 0]


class Reads(nn.Module):
    def forward(self, x: Tensor, y: Any) -> float:
        total: float = x.sum().tolist()
        rows: list[list[float]] = x.tolist()
        if torch.jit.isinstance(y, list[int]):
            total += y[0]
        return total + rows[1][0]


def test_questions_and_lists_are_kept_in_files():
    x, expected = torch.arange(4.0).view(2, 2), Reads()(torch.arange(4.0).view(2, 2), [3])
    for save, script in ((jit.save, jit.script), (torch.jit.save, torch.jit.script)):
        file = io.BytesIO()
        save(script(Reads()), file)
        for load in (jit.load, torch.jit.load):
            file.seek(0)
            assert load(file)(x, [3]) == expected


BARE = [typing.List, typing.Tuple, typing.Dict]  # noqa: UP006
CONTAINERS = (list, tuple, dict, *BARE, int, str, Tensor)


def question(kind):
    def asks(x: Any) -> bool:
        return isinstance(x, kind)

    return asks


@pytest.mark.parametrize("kind", CONTAINERS, ids=str)
def test_a_value_of_any_type_is_asked_for_its_class(kind):
    """The answer was False for each list, tuple and dict."""
    script = jit.script(question(kind))
    for value in ([1], ["a"], [], {"a": 1}, {}, (1, 2), (), 3, True, "x", F, None, 2.5):
        assert script(value) == isinstance(value, kind)


class AsksForAContainer(nn.Module):
    def forward(self, x: Any) -> bool:
        return isinstance(x, (list, tuple))


def test_a_question_for_a_class_is_kept_in_files():
    file = io.BytesIO()
    jit.save(jit.script(AsksForAContainer()), file)
    for load in (jit.load, torch.jit.load):
        file.seek(0)
        assert [load(io.BytesIO(file.getvalue()))(x) for x in ([1], (1, 2), 3)] == [
            True,
            True,
            False,
        ]


def of_a_bare_dict(x: typing.Dict) -> int:  # noqa: UP006
    return len(x)


def test_a_container_without_types_of_elements_is_refused():
    with pytest.raises(ScriptError, match="without the types of its elements"):
        jit.script(of_a_bare_dict)
