"""Enumerations in scripts: members as constants, arguments, attributes; against `torch.jit`."""

import enum
import io

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.print_ir import print_graph
from minitorch2.script.syntax.errors import ScriptError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
X = torch.tensor([1.0, -2.0])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 4


class Mixed(enum.Enum):
    NUMBER = 1
    TEXT = "x"


def equal(a: Color, b: Color) -> bool:
    return a == b


def different(a: Color) -> bool:
    return a != Color.RED


def value(a: Color) -> int:
    return a.value


def name(a: Color) -> str:
    return a.name


def constants(x: Tensor) -> Tensor:
    return x * Color.BLUE.value + len(Mode.SUM.name)


def chosen(flag: bool) -> Color:
    return Color.RED if flag else Color.BLUE


def elements(colors: list[Color]) -> int:
    total = 0
    for color in colors:
        total += color.value
    return total


def made(n: int) -> list[Color]:
    return [Color.RED, Color.BLUE]


def optional(a: Color | None) -> int:
    if a is None:
        return 0
    return a.value


def members() -> int:
    total = 0
    for color in Color:
        total += color.value
    return total


def default(x: Tensor, color: Color = Color.BLUE) -> Tensor:
    return x * color.value


def branches(x: Tensor, mode: Mode) -> Tensor:
    if mode == Mode.SUM:
        return x.sum()
    return x.mean()


def entries(table: dict[str, Color]) -> Color:
    return table["a"]


def changed_in_a_loop(n: int) -> Color:
    color = Color.RED
    for _ in range(n):
        if color == Color.RED:
            color = Color.BLUE
        else:
            color = Color.RED
    return color


def of_a_class(a: Color) -> bool:
    return isinstance(a, Color)


def level(a: Level) -> int:
    return a.value


BOTH = [
    (equal, (Color.RED, Color.RED)), (equal, (Color.RED, Color.BLUE)), (different, (Color.BLUE,)),
    (value, (Color.BLUE,)), (name, (Color.BLUE,)), (constants, (X,)), (chosen, (True,)),
    (chosen, (False,)), (elements, ([Color.RED, Color.BLUE],)), (made, (1,)), (optional, (None,)),
    (optional, (Color.BLUE,)), (members, ()), (default, (X,)), (default, (X, Color.RED)),
    (branches, (X, Mode.SUM)), (branches, (X, Mode.MEAN)), (entries, ({"a": Color.RED},)),
    (changed_in_a_loop, (3,)), (of_a_class, (Color.RED,)), (level, (Level.HIGH,)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), BOTH)
def test_enumerations_mean_what_they_mean_to_python_and_torch(function, arguments):
    scripted, peer, expected = (
        jit.script(function),
        torch.jit.script(function),
        function(*arguments),
    )
    for found in (scripted(*arguments), scripted(*arguments), peer(*arguments)):
        torch.testing.assert_close(found, expected) if isinstance(found, Tensor) else None
        assert str(found) == str(expected)


def identical(a: Color) -> bool:
    return a is Color.RED


def one_of(a: Color) -> bool:
    return a in (Color.RED, Color.BLUE)


def in_a_text(a: Color) -> str:
    return f"{a}"


def plus(a: Level, n: int) -> int:
    return a + n


def of_a_value(n: int) -> str:
    return Color(2).name + Color["RED"].name


def several_types(a: Mixed) -> bool:
    return a == Mixed.TEXT


def joined(x, mode: Mode):
    """Give a tensor or a tuple: no one type fits both."""
    if mode == Mode.SUM:
        return x.sum()
    return x, x


def of_a_known_member(x):
    mode = Mode.SUM
    return joined(x, mode) + joined(x, Mode.MEAN)[0].sum()


OURS = [
    (identical, (Color.RED,)), (identical, (Color.BLUE,)), (one_of, (Color.BLUE,)),
    (in_a_text, (Color.RED,)), (plus, (Level.HIGH, 3)), (of_a_value, (1,)),
    (several_types, (Mixed.TEXT,)), (several_types, (Mixed.NUMBER,)), (of_a_known_member, (X,)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), OURS)
def test_enumerations_mean_what_they_mean_to_python(function, arguments):
    """`torch.jit` refuses these, or answers wrongly: its ``a is Color.RED`` is False."""
    assert str(jit.script(function)(*arguments)) == str(function(*arguments))


def number_instead(a: Color) -> bool:
    return a == 1


def unknown_member(a: Color) -> bool:
    return a == Color.GREEN


def value_of_several_types(a: Mixed) -> int:
    return a.value


def unknown_value(n: int) -> Color:
    return Color(n)


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (number_instead, "aten::eq"),
        (unknown_member, "no attribute GREEN"),
        (value_of_several_types, "several types"),
        (unknown_value, "not known"),
    ],
)
def test_errors_of_enumerations_name_the_cause(function, cause):
    with pytest.raises(ScriptError, match=cause) as caught:
        jit.script(function)
    assert function.__name__ in str(caught.value)


def test_a_member_of_another_class_is_refused():
    with pytest.raises(TypeError, match="Enum"):
        jit.script(value)(Mode.SUM)


def test_the_text_of_a_graph_with_members_is_read_back():
    text = print_graph(jit.script(changed_in_a_loop).graph)
    assert print_graph(parse_graph(text)) == text


class Fixed(nn.Module):
    """Has members as attributes: code of branches is chosen by them."""

    def __init__(self, color):
        super().__init__()
        self.color, self.colors, self.table = color, [Color.RED, color], {"a": color}

    def forward(self, x):
        if self.color == Color.RED:
            x = x + 1
        x = x * self.table["a"].value
        for color in self.colors:
            x = x + color.value
        return x


class Changed(nn.Module):
    color: Color

    def __init__(self, color):
        super().__init__()
        self.color = color

    def forward(self, x, color: Color):
        x = x * self.color.value
        self.color = color
        return x + self.color.value


@pytest.mark.parametrize("color", Color)
def test_modules_hold_members_in_files_too(color):
    eager, file = Fixed(color), io.BytesIO()
    for save, script in ((jit.save, jit.script), (torch.jit.save, torch.jit.script)):
        file = io.BytesIO()
        save(script(eager), file)
        for load in (jit.load, torch.jit.load):
            file.seek(0)
            torch.testing.assert_close(load(file)(X), eager(X))


@pytest.mark.parametrize("writer", [jit, torch.jit])
def test_a_loaded_script_takes_and_gives_members_of_the_programs_own_class(writer):
    file = io.BytesIO()
    writer.save(writer.script(Changed(Color.RED)), file)
    file.seek(0)
    loaded, eager = jit.load(file), Changed(Color.RED)
    for color in Color:
        torch.testing.assert_close(loaded(X, color), eager(X, color))
    assert loaded.color is eager.color


def test_a_member_is_an_attribute_that_code_sets():
    ours, theirs = jit.script(Changed(Color.RED)), Changed(Color.RED)
    for color in (Color.BLUE, Color.RED, Color.RED, Color.BLUE):
        torch.testing.assert_close(ours(X, color), theirs(X, color))
        assert ours.color is theirs.color
