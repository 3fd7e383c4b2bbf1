"""The reasons of recompilations: the guard that failed in each entry, and a remedy.

Calls that find their entry leave no trace; only a call that no entry serves is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minitorch2 import stages
from minitorch2.bytecode.guards import Guard
from minitorch2.bytecode.guards.guard_function import GuardFailure
from minitorch2.foundation.notebook import table_in_notebook
from minitorch2.graph.node import SourceLine

REMEDIES = {
    "TENSOR_MATCH": "pass a tensor of the same kind; convert it before the call",
    "FUNCTION_MATCH": "define the function or class once, outside of what is called repeatedly",
    "ID_MATCH": "keep using the same object",
    "TYPE_MATCH": "pass an object of the same class",
    "CLASS_MATCH": "give classes their special methods before anything is compiled",
    "CONSTANT_MATCH": "keep the value the same, or pass it as a tensor",
    "NONE_MATCH": "pass None always or never: use a default object instead",
    "LENGTH": "keep the number of elements, or pad to a few lengths",
    "DICT_KEYS": "keep the same keys in the same order",
    "SET_CONTAINS": "keep the same elements",
    "TUPLE_ITERATOR_LEN": "pass an iterator with as many elements, or a list",
    "DICT_CONTAINS": "set the key or attribute before the first call",
    "HASATTR": "set the attribute before the first call",
    "EMPTY_CELL": "bind the variable before the first call",
    "LOGGER_DISABLED": "keep the level of the logger",
    "WARNING_IS_ERROR": "keep the filters of warnings",
    "MODULE_HOOKS": "add hooks before the first call",
    "GLOBAL_MODULE_HOOKS": "add hooks before the first call",
    "GRADIENT_HOOKS": "add hooks before the first call, or compile the forward pass alone",
    "DUPLICATE_INPUT": "pass one object for both, or two different ones, always",
    "DISTINCT_INPUTS": "pass different objects",
    "DISTINCT_STORAGES": "pass tensors that share no memory",
    "SHARED_MEMORY": "pass tensors that share memory as they did, or that share none",
    "STORAGE_SIZE": "pass tensors that have their memory for themselves",
    "SHAPE_ENV": "keep the sizes within this relation",
    "GRAD_MODE": "call it always with gradients, or always under torch.no_grad()",
    "GLOBAL_STATE": "change PyTorch's settings before the first call",
    "DEFAULT_DEVICE": "name the device of new tensors, or call it always with the same default",
    "AUTOCAST": "call it always inside the same torch.autocast, or always outside",
    "TENSOR_CLASS": "replace attributes of torch.Tensor before anything is compiled",
    "SETTING": "change settings of backends and of autocast before the first call",
    "TENSOR_SUBCLASS": "pass tensors that are made alike: of one size, with one context",
    "TRUTH_OF_BUFFERS": "move the branch on the buffer out of the compiled function",
    "TORCH_FUNCTION": "call it always, or never, under DisableTorchFunctionSubclass",
}
"""The change that helps against failures of each kind of guard."""

REMEDIES_OF_TENSORS = {
    "sizes": "pass few sizes: pad, or bucket them",
    "dtype": "convert it before the call: x.to(dtype)",
    "device": "move it before the call: x.to(device)",
    "requires_grad": "detach it, or give all of them requires_grad",
    "strides": "call .contiguous() before",
    "class": "pass a plain tensor or a parameter, always the same",
}
"""The change that helps when this property of a tensor differs."""


@dataclass(frozen=True)
class Recompile:
    """The guard that kept an entry from serving calls.

    Attributes:
        function: qualified name of the function: the compiled one, one that it calls, or the rest
            of one behind a graph break.
        entry: number of the function's entry that did not serve.
        compile_id: the same as in the log, such as ``"0/1"``: frame and entry.
        guard: the first that failed.
        what: the property that differed, such as ``"dtype"``.
        expected: its value while capturing.
        actual: its value when the guard failed last.
        line: the line of the user's program that made the guard necessary.
        stack: the calls that led to that line, outermost first.
        times: the number of calls that were compiled, or ran in Python, because of it.
        fix: the change that usually helps.
    """

    function: str
    entry: int
    compile_id: str
    guard: Guard
    what: str
    expected: str
    actual: str
    line: SourceLine | None
    stack: tuple[SourceLine, ...]
    times: int
    fix: str

    def __str__(self) -> str:
        return told_once([self])

    @property
    def cause(self) -> tuple[object, ...]:
        """Equal for failures that differ only in their entries and values."""
        return self.function, str(self.guard), self.what, self.line, self.fix


def told_once(equal: Sequence[Recompile]) -> str:
    """Return a line for failures of one cause, with the values of the first and of the last."""
    first, last = equal[0], equal[-1]
    where = f" (needed by {first.line})" if first.line else ""
    entries = f"entry {first.entry}" if first is last else f"entries {first.entry} to {last.entry}"
    values = [f"{each.what} was {each.expected}, now {each.actual}" for each in (first, last)]
    changes = "; last: ".join(dict.fromkeys(values))
    return (
        f"{first.function} {entries}: {first.guard}: {changes}{where}; "
        f"{max(each.times for each in equal)}x. Fix: {first.fix}"
    )


class Recompiles(list[Recompile]):
    """The reasons of recompilations: a list that prints a line for each cause."""

    def __str__(self) -> str:
        causes: dict[object, list[Recompile]] = {}
        for each in self:
            causes.setdefault(each.cause, []).append(each)
        return "\n".join(map(told_once, causes.values())) or "nothing was compiled again"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        headings = ("function", "entry", "guard", "was", "is", "times", "needed by", "what helps")
        rows = (
            (
                each.function, each.entry, f"{each.guard}: {each.what}", each.expected, each.actual,
                each.times, each.line or "", each.fix,
            )
            for each in self
        )  # fmt: skip
        return table_in_notebook(headings, rows)


def remedy_of_guard(guard: Guard, what: str) -> str:
    """Return the change that helps against a failure of a guard."""
    if guard.kind == "TENSOR_MATCH":
        return REMEDIES_OF_TENSORS.get(what.partition(" of ")[0], REMEDIES["TENSOR_MATCH"])
    return REMEDIES[guard.kind]


class Misses:
    """The failures of guards of one function's entries."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._found: dict[tuple[str, Guard, str], Recompile] = {}

    def note(self, failures: Iterable[GuardFailure]) -> None:
        """Note a call that no entry served, and the failure in each entry."""
        stages.count("cache_misses")
        recompile = None
        for failure in failures:
            key = failure.compile_id, failure.guard, failure.what
            known = self._found.get(key)
            times = 1 if known is None else known.times + 1
            recompile = self._found[key] = self._recompile(failure, times)
        if recompile is not None:
            stages.count("recompiles")
            stages.record("recompile", str(recompile), subject=recompile)

    def clear(self) -> None:
        """Forget all failures."""
        self._found.clear()

    def _recompile(self, failure: GuardFailure, times: int) -> Recompile:
        guard = failure.guard
        return Recompile(
            self._function,
            int(failure.compile_id.partition("/")[2]),
            failure.compile_id,
            guard,
            failure.what,
            failure.expected,
            failure.actual,
            guard.user_line,
            guard.user_stack,
            times,
            remedy_of_guard(guard, failure.what),
        )

    def all(self) -> list[Recompile]:
        """Return the failures by entry, in the order in which they were first found."""
        return sorted(self._found.values(), key=lambda recompile: recompile.entry)
