"""Random classes of tensors, and random programs over them, behave the same when captured.

A class overrides some methods, keeps attributes, notes the functions that it sees, or answers some
of them itself; a program applies operators to tensors of such classes, plain ones among them, under
modes and without, and returns what it has. Values, classes, attributes and notes are compared.
"""

import contextlib
import linecache
import textwrap
from dataclasses import dataclass
from itertools import count

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

import minitorch2
from minitorch2 import config, stages
from tests.property.test_capture_programs import patient

_NUMBERS = count()

OVERRIDES = {
    "inherited": "",
    "documented": """
        return super().__torch_function__(func, types, args, kwargs or {})
    """,
    "noting": """
        SEEN.append((cls.__name__, func.__name__, [kind.__name__ for kind in types]))
        return super().__torch_function__(func, types, args, kwargs or {})
    """,
    "carrying": """
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, cls):
            result.label = [func.__name__, *(getattr(arg, "label", 0) for arg in args)]
        return result
    """,
    "answering": """
        if func in (torch.Tensor.mul, torch.sin):
            with torch._C.DisableTorchFunctionSubclass():
                return (args[0] - 1).as_subclass(cls)
        return super().__torch_function__(func, types, args, kwargs or {})
    """,
    "unwrapping": """
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, cls) else a for a in args]
        with torch._C.DisableTorchFunctionSubclass():
            return func(*plain, **(kwargs or {}))
    """,
    "refusing": """
        if func in (torch.Tensor.add, torch.Tensor.__rsub__):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})
    """,
}
"""Bodies of ``__torch_function__`` by what they do."""

METHODS = {
    "property": "@property\ndef twice(self):\n    return self * 2\n",
    "method": "def plus(self, other):\n    return self + other\n",
    "operator": "def __sub__(self, other):\n    return self * other\n",
    "reflected": "def __rsub__(self, other):\n    return self + other\n",
    "overridden": "def relu(self):\n    return super().relu() + 1\n",
}

OPERATIONS = (
    "{x} + {y}", "{x} * 2", "{x} - {y}", "1 - {x}", "{x} @ {y}", "{x} > {y}", "-{x}", "{x}.T",
    "{x}.sum(0)", "{x}.relu()", "torch.sin({x})", "torch.stack([{x}, {y}]).sum(0)",
    "torch.cat(({x}, {y}))[:2]", "F.softmax({x}, dim=-1)", "torch.add({y}, {x}, alpha=2)",
    "{x}.clone().add_({y})", "{x}.as_subclass(torch.Tensor)", "{x}.as_subclass(type({y}))",
    "{x}.reshape(-1)[:4].reshape(2, 2)", "torch.zeros_like({x})", "{x}.view(2, 2)[0] + {y}",
    "{x}.max(dim=0).values + {y}", "{x} * {x}.shape[0] + len({y})",
    "torch.where({x} > 0, {x}, {y})",
)  # fmt: skip
"""Expressions of two variables."""

BLOCKS = (
    "with torch._C.DisableTorchFunctionSubclass():",
    "with torch._C.DisableTorchFunction():",
    "with Noting('a'):",
    "with Adding():",
    "with torch.no_grad():",
    "if isinstance(x0, type(x1)):",
    "if hasattr(x0, 'label'):",
)
ATTRIBUTES = ("{x}.label = 'set'", "{x}.extra = [1, {y}]", "kept.append(getattr({x}, 'label', 0))")
PRELUDE = """
class Noting(TorchFunctionMode):
    def __init__(self, name):
        self.name = name

    def __torch_function__(self, func, types, args=(), kwargs=None):
        SEEN.append((self.name, func.__name__))
        return func(*args, **(kwargs or {}))


class Adding(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 1 if func is torch.Tensor.mul else result

"""


@dataclass(frozen=True)
class Program:
    """The text of classes and of a function, and the classes of its arguments."""

    text: str
    arguments: tuple[str, ...]
    requires_grad: bool
    mode: str | None

    def load(self):
        """The function, and the namespace that it lives in."""
        file = f"<subclasses {next(_NUMBERS)}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(True), file)
        namespace = {"torch": torch, "F": F, "TorchFunctionMode": TorchFunctionMode, "SEEN": []}
        namespace["__name__"] = __name__
        exec(compile(self.text, file, "exec"), namespace)
        return namespace["program"], namespace

    def inputs(self, namespace):
        """New arguments, of the same values each time."""
        made = []
        for place, name in enumerate(self.arguments):
            tensor = torch.linspace(-1 + place / 2, 1, 4).view(2, 2).clone()
            if name != "Tensor":
                tensor = tensor.as_subclass(namespace[name])
            with torch._C.DisableTorchFunctionSubclass():
                made.append(tensor.requires_grad_(self.requires_grad))
        return made

    def outcome(self, function, namespace):
        """All that can be seen of a call: results, or the class of an error; notes; gradients."""
        namespace["SEEN"].clear()
        inputs = self.inputs(namespace)
        around = eval(self.mode, namespace) if self.mode else contextlib.nullcontext()
        try:
            with around:
                results = function(*inputs)
        except (TypeError, RuntimeError, AttributeError) as error:
            return type(error).__name__
        notes = list(namespace["SEEN"])
        with torch._C.DisableTorchFunctionSubclass():
            roots = [r for r in results[:-1] if isinstance(r, torch.Tensor) and r.grad_fn]
            if roots:
                sum(root.as_subclass(torch.Tensor).sum() for root in roots).backward()
            gradients = [shown(x.grad) for x in inputs]
        return shown(results), notes, gradients, shown(inputs)

    def __repr__(self):
        return f"{self.text}\n# {self.arguments} {self.requires_grad} {self.mode}"


def shown(value, depth=3):
    """What is compared of a value: class, attributes, and numbers of three digits."""
    if not depth:
        return "..."
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            numbers = [f"{n:.3g}" for n in value.detach().double().flatten().tolist()]
            own = {name: shown(part, depth - 1) for name, part in value.__dict__.items()}
            return type(value).__name__, value.requires_grad, tuple(value.shape), numbers, own
    if isinstance(value, tuple | list):
        return [shown(part, depth - 1) for part in value]
    return repr(value)


@st.composite
def programs(draw):
    """Two or three classes, one perhaps derived from another, and a function of two tensors."""
    names = ["A", "B", "C"][: draw(st.integers(1, 3))]
    classes, bases = [], ["torch.Tensor"]
    for name in names:
        base = draw(st.sampled_from(bases))
        classes.append(_class(draw, name, base))
        bases.append(name)
    lines, known = ["kept = []"], ["x0", "x1"]
    for _ in range(draw(st.integers(1, 6))):
        _statement(draw, lines, known)
    body = "\n".join([*lines, f"return {', '.join(known)}, kept"])
    text = f"{PRELUDE}{''.join(classes)}\ndef program(x0, x1):\n{textwrap.indent(body, '    ')}\n"
    arguments = tuple(draw(st.sampled_from([*names, "Tensor"])) for _ in range(2))
    mode = draw(st.sampled_from([None, None, None, "Noting('around')", "Adding()"]))
    return Program(text, arguments, draw(st.booleans()), mode)


def _class(draw, name, base):
    kind = draw(st.sampled_from(sorted(OVERRIDES)))
    parts = [f"kind = {kind!r}\n"]
    if OVERRIDES[kind]:
        body = textwrap.indent(textwrap.dedent(OVERRIDES[kind]).strip(), "    ")
        head = "def __torch_function__(cls, func, types, args=(), kwargs=None):"
        parts.append(f"@classmethod\n{head}\n{body}\n")
    parts += [METHODS[m] for m in draw(st.sets(st.sampled_from(sorted(METHODS)), max_size=2))]
    return f"class {name}({base}):\n" + textwrap.indent("\n".join(parts), "    ") + "\n"


def _statement(draw, lines, known):
    x, y = draw(st.sampled_from(known)), draw(st.sampled_from(known))
    what = draw(st.integers(0, 9))
    if what == 0:
        lines.append(draw(st.sampled_from(ATTRIBUTES)).format(x=x, y=y))
        return
    name = f"x{len(known)}"
    text = f"{name} = {draw(st.sampled_from(OPERATIONS)).format(x=x, y=y)}"
    if what < 4:
        block = draw(st.sampled_from(BLOCKS))
        lines += [f"{name} = {x}", block, f"    {text}"]
    else:
        lines.append(text)
    known.append(name)


def capture(function):
    return minitorch2.compile(function, backend="eager")


@patient(150)
@given(programs())
def test_classes_of_tensors_match_eager(program):
    function, namespace = program.load()
    expected = program.outcome(function, namespace)
    with config.patch(suppress_errors=False), stages.collect() as log:
        compiled = capture(function)
        for _ in range(2):
            assert program.outcome(compiled, namespace) == expected
    if not isinstance(expected, str):
        assert not log.counts["graph_breaks"], log.texts("graph_break")
