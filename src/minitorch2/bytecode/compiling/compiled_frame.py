"""The result of capturing a frame: guards, a graph, and the residual function that uses them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from minitorch2.bytecode.compiling.reasons import page_of, remedy_of
from minitorch2.bytecode.compiling.rerun import Rerun
from minitorch2.bytecode.frames.compiled_source import compile_function
from minitorch2.bytecode.frames.signature import signature_of
from minitorch2.bytecode.guards.guard_function import CompiledGuards
from minitorch2.bytecode.machine.per_code import once_per_code
from minitorch2.bytecode.residual.residual_function import RERUN
from minitorch2.errors import UnsupportedError
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import SourceLine
from minitorch2.graph.symbols import ShapeEnv


@dataclass(frozen=True)
class GraphBreak:
    """The reason and the place of a graph's end before the end of its function.

    Attributes:
        reason: stable code of the reason, such as ``"data-dependent-branch"``.
        cause: the event, in the user's terms.
        fix: a change that the user can make; empty if none is known.
        line: the user's line.
        stack: the calls that led there, outermost first; the last is `line`.
    """

    reason: str
    cause: str
    fix: str
    line: SourceLine
    stack: tuple[SourceLine, ...] = ()

    @staticmethod
    def of(error: UnsupportedError, line: SourceLine) -> GraphBreak:
        """Return the break that an unsupported instruction makes."""
        stack = tuple(each for each in error.user_stack if isinstance(each, SourceLine))
        return GraphBreak(error.code, error.cause, remedy_of(error), line, stack)

    def __str__(self) -> str:
        lines = [str(self.line), f"{self.cause} [{self.reason}]"]
        lines += [f"Fix: {self.fix}"] if self.fix else []
        lines += [f"See {page_of(self.reason)}"] if page_of(self.reason) else []
        lines += [f"called from {caller}" for caller in reversed(self.stack[:-1])]
        return "\n  ".join(lines)


@dataclass(frozen=True)
class CompiledFrame:
    """One entry of the cache of a code object.

    Attributes:
        guards: the conditions under which the entry may be used.
        residual: code of the residual function; all its parameters are positional.
        source: its text.
        references: values of its private free variables.
        graph: the captured graph; None if there were no tensor operations.
        graph_break: the reason why the graph ended early; None if it did not.
        number: its position among the compilations of its region.
        lines: the user's lines that were evaluated, by file.
        codes: the code of the frame and of the functions that were inlined into it, held weakly.
        compile_id: the compilation that made it, such as ``"0/1"``: frame and entry.
        forced_backend: the backend that a stance put in the place of the region's own.
        shape_env: the symbols of its sizes, and which sizes are numbers.
        spare: the name by which residual code calls the graph, and a replacement for the backend's
            code if it turns out not to work.
        blame: is told if that happens; None if it is an error.
    """

    guards: CompiledGuards
    residual: CodeType
    source: str
    references: dict[str, object]
    graph: GraphModule | None
    graph_break: GraphBreak | None
    number: int
    lines: frozenset[tuple[str, int]] = frozenset()
    codes: tuple[weakref.ref[CodeType], ...] = ()
    compile_id: str = ""
    forced_backend: object = None
    shape_env: ShapeEnv | None = None
    spare: tuple[str, Callable[..., Any]] | None = None
    blame: Callable[[str], None] | None = None

    @property
    def entered(self) -> list[CodeType]:
        """The code of the frame and of the inlined functions, as far as it is still there."""
        codes = (reference() for reference in self.codes)
        return [code for code in codes if code is not None]

    @property
    def handles_errors(self) -> bool:
        """True if code that was captured has a ``try`` or a ``with``."""
        return any(code.co_exceptiontable for code in self.entered)

    @property
    def guard_references(self) -> dict[str, object]:
        """The objects that guards refer to by private names."""
        return {name: held.get() for name, held in self.guards.references.items()}

    @property
    def operators(self) -> int:
        """The number of operations in its graph."""
        nodes = () if self.graph is None else self.graph.graph.nodes
        return sum(node.op.startswith("call") for node in nodes)

    def bind(self, function: FunctionType) -> BoundEntry:
        """Return the guard and residual functions with a function object's globals and cells."""
        code = function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        cells |= {name: CellType(value) for name, value in self.references.items()}
        for name, value in self.references.items():
            if value is RERUN:
                cells[name] = CellType(self._rerun(function, cells))
        closure = tuple(cells[name] for name in self.residual.co_freevars)
        run = FunctionType(self.residual, function.__globals__, function.__name__, None, closure)
        return BoundEntry(self.guards.bind(canonical(function)).fast_check, run, self)

    def _rerun(self, function: FunctionType, cells: dict[str, CellType]) -> Rerun:
        """Return the `Rerun` that runs the frame in Python, or its graph uncompiled."""

        def give_up() -> None:
            if self.spare is not None:
                name, graph = self.spare
                cells[name].cell_contents = graph

        if self.spare is not None:
            name, _ = self.spare
            cells[name] = CellType(self.references[name])
        return Rerun(function, self.handles_errors, self.blame, give_up)


@dataclass(frozen=True, slots=True)
class BoundEntry:
    """A guard function and a residual function; both take all parameters positionally."""

    check: Callable[..., bool]
    run: Callable[..., Any]
    compiled: CompiledFrame


def canonical(function: FunctionType) -> FunctionType:
    """Return a function with the same globals and cells whose parameters are all positional.

    Guards and residual code take the parameters of the captured function in the order of its slots:
    positional ones, keyword-only ones, the tuple of ``*args``, the dict of ``**kwargs``. This
    function, which is never called, has that signature.
    """
    code = _canonical_code(function.__code__)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    return FunctionType(code, function.__globals__, function.__name__, None, closure)


@once_per_code
def _canonical_code(code: CodeType) -> CodeType:
    lines = [
        (f"def canonical({', '.join(signature_of(code).names)}):", 1),
        (f"    return ({''.join(name + ', ' for name in code.co_freevars)})", 1),
    ]
    return compile_function(lines, code.co_freevars, code)
