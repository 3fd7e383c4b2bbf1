"""Random programs of views, writes and random numbers: eager mode and deferred execution agree.

    python -m tests.property.lazy_programs --count 2000
    python -m tests.property.lazy_programs --count 2000 --gradients
    python -m tests.property.lazy_programs --seed 17             shows one program

A program has vectors, matrices and numbers that often share memory, and it looks at them: it
prints, branches, and asks for strides, versions and identities. It is called with several sizes.
Compared are values, printed text, exceptions with their lines, identities, which results share
memory and where they begin in it, versions, gradients, and the random numbers that come next.
The ways are a region whose steps run operator by operator, one that is compiled at once, one that
is compiled when steps repeat, and lazy tensors without a region.
"""

from __future__ import annotations

import argparse
import contextlib
import linecache
import random
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch

from minitorch2 import config, lazy
from minitorch2.testing.assertions import assert_same_observation, observe
from tests.property.lazy_grammar import EXPRESSIONS, GRADIENTS, STATEMENTS

_SLOT = re.compile(r"\$(block|new\w|[MVWSKCR](?!\w)|[mvwsk])(\d?)")
_NUMBERS = count()
HEAD = "def f(m, v, k, log, barrier):\n    w, s = m.view(-1), v.sum()\n"


class Writer:
    """Fills in the forms of the grammar; `known` are the variables that are bound, by kind."""

    def __init__(self, seed: int, *, gradients: bool) -> None:
        self.random = random.Random(seed)
        self.statements = STATEMENTS + GRADIENTS if gradients else STATEMENTS
        self.known = {"m": ["m"], "v": ["v"], "w": ["w"], "s": ["s"], "k": ["k"]}
        self.lines: list[str] = []
        self._new = count(1)

    def block(self, length: int, indent: str, depth: int) -> None:
        """Write statements; what they bind is unknown behind a nested block."""
        for _ in range(length):
            forms = [form for form in self.statements if depth or "$block" not in form]
            self.statement(self.random.choice(forms), indent, depth)

    def statement(self, form: str, indent: str, depth: int) -> None:
        """Write a form; its lines are filled in one after the other."""
        names: dict[str, str] = {}
        for line in form.splitlines():
            text = line.lstrip()
            inner = indent + line[: len(line) - len(text)]
            if text == "$block":
                before = {kind: [*known] for kind, known in self.known.items()}
                self.block(self.random.randint(1, 2), inner, depth - 1)
                self.known = before
            else:
                self.lines.append(inner + self.filled(text, names, 2))
        for slot, name in names.items():
            if slot.startswith("new"):
                self.known[slot[3].lower()].append(name)

    def filled(self, form: str, names: dict[str, str], depth: int) -> str:
        """Return a form with its slots filled in."""
        return _SLOT.sub(lambda match: self._slot(match, names, depth), form)

    def _slot(self, match: re.Match[str], names: dict[str, str], depth: int) -> str:
        kind, slot = match[1], match[0][1:]
        if kind in EXPRESSIONS:
            forms = EXPRESSIONS[kind]
            simple = [form for form in forms if not re.search(r"\$[MVWSKCR](?!\w)", form)]
            return self.filled(self.random.choice(forms if depth else simple), {}, depth - 1)
        if slot not in names:
            new = kind.startswith("new")
            names[slot] = (
                f"{kind[3].lower()}{next(self._new)}" if new else self._one_of(kind, names)
            )
        return names[slot]

    def _one_of(self, kind: str, names: dict[str, str]) -> str:
        """Return a variable; the younger, the likelier."""
        known = self.known[kind]
        return known[max(self.random.randrange(len(known)) for _ in range(2))]


def text_of(seed: int, *, gradients: bool) -> str:
    """Return the text of a program."""
    writer = Writer(seed, gradients=gradients)
    writer.block(writer.random.randint(3, 9), "    ", depth=2)
    names = [name for known in writer.known.values() for name in known]
    return HEAD + "\n".join(writer.lines) + f"\n    return [{', '.join(names)}]\n"


def function_of(text: str) -> Callable[..., Any]:
    """Return the program as a function."""
    file = f"<lazy program {next(_NUMBERS) % 100}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(compile(text, file, "exec", dont_inherit=True), names)
    function: Callable[..., Any] = names["f"]
    return function


def arguments(call: int, *, gradients: bool) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return a matrix and a vector that is one of its rows in some calls, and a number."""
    rows, columns = ((3, 4), (3, 4), (2, 5), (4, 3), (3, 4), (1, 4))[call % 6]
    generator = torch.Generator().manual_seed(call)
    m = torch.randn(rows, columns, generator=generator).requires_grad_(gradients)
    v = m.detach()[0] if call % 3 == 1 else torch.randn(columns, generator=generator)
    return m, v.requires_grad_(gradients), call % 3 + 1


# What a caller sees -------------------------------------------------------------------------------


def outcome(
    function: Callable[..., Any],
    call: int,
    *,
    gradients: bool,
    make: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
    barrier: Callable[[], None] = lambda: None,
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Any:
    """Return all that a caller sees of a call."""
    m, v, k = arguments(call, gradients=gradients)
    m, v = make(m), make(v)
    log: list[Any] = []

    def watched() -> Any:
        try:
            with around():
                given = (m * 1, v * 1) if gradients else (m, v)
                results = function(*given, k, log, barrier)
                if gradients:
                    _differentiate([*results, *log])
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename.startswith("<lazy")]
            return type(error).__name__, _plain(str(error)), lines
        return [*results, *log]

    seen = observe(watched, (), [m, v, log])
    value = seen.value
    if isinstance(value, list):
        seen.value = [
            value,
            [*map(_facts, value)],
            _memories(value),
            *map(_laid_out, (m.grad, v.grad)),
        ]
    seen.printed = _plain(seen.printed)
    seen.state = [seen.state, torch.randint(10**6, ()).item()]
    return seen


def _laid_out(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Return a gradient with the stride 1 for each dimension of one element, which no index reads.

    Autograd adds gradients in place, and tensors of Python classes out of place.
    """
    if gradient is None:
        return None
    real = lazy.to_eager(gradient)
    sizes = zip(real.shape, real.stride(), strict=True)
    return real.as_strided(real.shape, [1 if size == 1 else step for size, step in sizes])


def _plain(text: str) -> str:
    """Return a message without the names that tell the two apart.

    They are the class of lazy tensors, and the last operator of a view whose base was written to:
    PyTorch takes `as_strided` where it finds memory, and otherwise the view's own operator. Text
    is broken before that name if the name is long.
    """
    text = re.sub(r"output 0 of \w+", "output", text.replace("LazyTensor", "Tensor"))
    return re.sub(r",\s+grad_fn=<\w+>", ", grad_fn", text)


def _differentiate(results: list[Any]) -> None:
    roots = [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]
    if roots:
        sum((root.sum() for root in roots), torch.zeros(())).backward()


def _facts(value: Any) -> Any:
    """Return what a tensor says about itself without its elements."""
    if not isinstance(value, torch.Tensor):
        return value
    return (
        value.size(), value.stride(), value.storage_offset(), value.dtype, value.requires_grad,
        value.is_leaf, value._version, value.is_contiguous(),
        value.grad_fn is None, value._is_view(),
    )  # fmt: skip


def _memories(values: list[Any]) -> list[int]:
    """Number the memories of tensors: equal numbers are shared memory."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    storages = [lazy.to_eager(tensor.detach()).untyped_storage() for tensor in tensors]
    known: dict[int, int] = {}
    return [known.setdefault(s._cdata, len(known)) if s.nbytes() else -1 for s in storages]


# The ways -----------------------------------------------------------------------------------------

WAYS = {"interpreted": (99, True), "compiled": (1, True), "late": (3, True),
        "lazy tensors": (1, False)}  # fmt: skip
"""After how many steps a step is compiled, and whether the operators run in a region."""


LIMITS = {"derivative for set_ is not implemented", "Autograd not support dtype: Long"}
"""Eager mode's errors in backward where PyTorch calls a lazy tensor's view operator again, which
fails earlier with another error: `set_` on a base, a gradient in a view of integers
(docs/layers/lazy.md tells it)."""
REFUSED = "view size is not compatible with input tensor's size and stride"
"""How that operator refuses memory of another form, which `data` or `set_` gave to the base."""
REFUSED_WINDOW = "writes to memory that a window by as_strided shows"
"""How a write outside of regions is refused that would make a gradient wrong."""


@contextlib.contextmanager
def deferred(compile_after: int, backend: str, *, region: bool) -> Iterator[None]:
    """Defer what runs in the block, from an empty trie on."""
    with config.patch(backend=backend, lazy_compile_after=compile_after):
        try:
            with lazy.lazily(eager_first=False) if region else contextlib.nullcontext():
                yield
        finally:
            lazy.mark_step()


def check(seed: int, *, gradients: bool = False, backend: str = "aot_eager") -> None:
    """Run a program in all ways, with several sizes.

    Raises:
        AssertionError: a caller can tell a way from eager mode.
    """
    text = text_of(seed, gradients=gradients)
    try:
        check_text(text, gradients=gradients, backend=backend)
    except AssertionError as error:
        raise AssertionError(f"program {seed}: {error}") from error


def check_text(text: str, *, gradients: bool = False, backend: str = "aot_eager") -> None:
    """Run a program that is given as text in all ways, with several sizes.

    A function is new at each call: CPython's faster form of one that was called eight times may
    tell another line of an error.

    Raises:
        AssertionError: a caller can tell a way from eager mode.
    """
    calls = [0, 4, 0, 2, 2, 3, 1, 1, 5]
    wanted = [outcome(function_of(text), call, gradients=gradients) for call in calls]
    for name, (after, region) in WAYS.items():
        if not region and not _is_free_of_regions(text):
            continue
        lazy.reset()
        for position, call in enumerate(calls if after < 99 else calls[:4]):
            if not region and call % 3 == 1:
                continue  # to_lazy copies: rows do not share memory
            value = wanted[position].value
            if isinstance(value, tuple) and value[1] in LIMITS:
                continue
            given = outcome(
                function_of(text),
                call,
                gradients=gradients,
                make=(lambda t: t) if region else lazy.to_lazy,
                barrier=lazy.mark_step,
                around=lambda: deferred(after, backend, region=region),
            )
            if gradients and _is_refused_view(given, wanted[position], text):
                continue
            if gradients and not region and REFUSED_WINDOW in str(given.value):
                continue
            try:
                assert_same_observation(given, wanted[position], 1e-4)
            except AssertionError as error:
                message = f"{name}, call {position}: {error}\n{text}"
                raise AssertionError(message) from error


def _is_refused_view(given: Any, wanted: Any, text: str) -> bool:
    """Return whether a view's operator refuses memory that a line before gave to its base.

    What was printed until then is eager mode's.
    """
    if not isinstance(given.value, tuple) or REFUSED not in given.value[1]:
        return False
    lines = text.splitlines()[: given.value[2][-1] - 1]
    is_given = any(".data = " in line or ".set_(" in line for line in lines)
    return is_given and wanted.printed.startswith(given.printed)


def _is_free_of_regions(text: str) -> bool:
    """Return whether nothing in a program needs a region: functions that read lists of tensors."""
    return not re.search(r"torch\.tensor\(|copy_\(torch", text)


def main() -> None:
    """Check programs and print those that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, help="one program; it is printed")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--backend", default="aot_eager", help="compiles the steps")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.seed is not None:
        print(text_of(options.seed, gradients=options.gradients))
        check(options.seed, gradients=options.gradients, backend=options.backend)
        return
    wrong = 0
    for seed in range(options.start, options.start + options.count):
        try:
            check(seed, gradients=options.gradients, backend=options.backend)
        except Exception as error:
            wrong += 1
            print(f"WRONG {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{options.count} programs, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
