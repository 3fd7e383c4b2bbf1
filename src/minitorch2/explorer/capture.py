"""The stages of capture: the user's source, bytecode, the captured graph, guards, residual code."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import CodeType

from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.bytecode.dispatch.dispatcher import Dispatcher
from minitorch2.bytecode.dispatch.region import ClosingContinuation
from minitorch2.bytecode.frames.skip_files import PACKAGE
from minitorch2.bytecode.guards.guard_function import CompiledGuards
from minitorch2.bytecode.machine.instruction import Instruction
from minitorch2.bytecode.machine.program import program_of
from minitorch2.bytecode.observe.listing import source_lines
from minitorch2.explorer.callers import callers_of
from minitorch2.explorer.graphs import drawing_of, node_rows
from minitorch2.explorer.making import Making, plain_rows
from minitorch2.explorer.store import Break, Pane, Row
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, SourceLine


def show_frame(making: Making, text: str, code: CodeType) -> None:
    """Begin a compilation: forget an earlier attempt with the same id."""
    compilation = making.compilation
    compilation.function = code.co_qualname
    compilation.place = f"{code.co_filename}:{code.co_firstlineno}"
    compilation.callers = callers_of(code)
    rest = making.rests.get(id(code))
    compilation.resumes = None if rest is None else rest[1:]
    compilation.panes.clear()
    compilation.breaks.clear()
    compilation.continuations.clear()
    making.compilation.panes.append(Pane("source", "source", tuple(plain_rows(text))))


def show_bytecode(making: Making, text: str, code: CodeType) -> None:
    """Show the bytecode as Python's `dis` does; the steps of the evaluator will replace it."""
    del code
    making.show(Pane("bytecode", "bytecode", tuple(plain_rows(text))))


def show_captured(making: Making, text: str, module: GraphModule) -> None:
    """Show the captured graph, and let its nodes' lines tell which node is theirs."""
    making.compilation.steps = making.steps.finish("captured to the end")
    _show_evaluated(making)
    for node in module.graph.nodes:
        source = node.meta.get("source")
        if source is not None:
            node.meta["source"] = replace(source, node=node.name)

    def origins(node: Node) -> tuple[str, ...]:
        return making.instruction(making.steps.made.get(node), node.meta.get("source"))

    making.compilation.operators = sum(n.op.startswith("call") for n in module.graph.nodes)
    rows = node_rows(making, "graph", text, module.graph, origins)
    drawing = drawing_of("graph", module.graph)
    making.show(Pane("graph", "captured graph", tuple(rows), drawing))


def _show_evaluated(making: Making) -> None:
    """Show the instructions of the frame, and of all functions that were inlined into it."""
    if making.steps.codes:
        numbered = enumerate(making.steps.codes)
        rows = tuple(row for number, code in numbered for row in _code(making, number, code))
        making.show(Pane("bytecode", "bytecode", rows))


def _code(making: Making, number: int, code: CodeType) -> Iterator[Row]:
    yield Row(f"{code.co_qualname}: {code.co_filename}:{code.co_firstlineno}", mark="head")
    line = None
    for index, instruction in enumerate(program_of(code).instructions):
        shown = "" if instruction.line in (None, line) else str(instruction.line)
        line = instruction.line or line
        origins = () if line is None else (making.line_key(code.co_filename, line),)
        text = f"{shown:>5} {instruction.offset:>5} {_operation(instruction)}"
        yield Row(text, f"i{number}:{index}", origins)


def _operation(instruction: Instruction) -> str:
    value, target = instruction.argval, instruction.target
    operand = "" if value is None and instruction.opname != "LOAD_CONST" else f" {value!r}"
    arrow = "" if target is None else f" -> {target.offset}"
    return f"{instruction.opname}{operand}{arrow}"


def break_of(found: GraphBreak) -> Break:
    """Return a graph break as a record."""
    place = f"{found.line.file}:{found.line.line}"
    return Break(found.reason, found.cause, found.fix, place, tuple(map(str, found.stack)))


def show_as_is(making: Making, text: str, subject: tuple[CodeType, GraphBreak]) -> None:
    """Note a function that runs in Python, and why."""
    del text
    code, found = subject
    making.store.as_is[code.co_qualname] = break_of(found)


def show_break(making: Making, text: str, found: GraphBreak) -> None:
    """Note a graph break; the steps end there."""
    del text
    making.compilation.breaks.append(break_of(found))
    making.line(found.line)
    end = f"the graph breaks: {found.cause} [{found.reason}]"
    if making.compilation.steps is None:
        making.compilation.steps = making.steps.finish(end)
        _show_evaluated(making)
    making.compilation.steps = replace(making.compilation.steps, end=end)


def show_guards(making: Making, text: str, guards: CompiledGuards) -> None:
    """Show each guard with the instruction that needed it, and the function that checks them."""
    rows = [
        Row(f"{guard}", f"guards:{number}", _needed_by(making, guard))
        for number, guard in enumerate(guards.guards)
    ]
    making.show(Pane("guards", "guards", (*rows, Row(""), *plain_rows(text))))


def _needed_by(making: Making, guard: object) -> tuple[str, ...]:
    line: SourceLine | None = getattr(guard, "user_line", None)
    place = making.steps.guarded.get(guard)  # type: ignore[call-overload]
    return making.instruction(place, line)


def show_residual(making: Making, text: str, compiled: CompiledFrame) -> None:
    """Show what is left of the frame, and the source of all functions that were entered."""
    for name, value in compiled.references.items():
        if isinstance(value, Dispatcher | ClosingContinuation):
            code = value.function.__code__ if isinstance(value, Dispatcher) else value.code
            making.rests[id(code)] = code, making.compilation.id, name
            making.compilation.continuations.append(name)
    making.show(Pane("residual", "residual code", tuple(plain_rows(text))))
    line = None if compiled.graph_break is None else compiled.graph_break.line
    broken = None if line is None else (line.file, line.line)
    blocks = _blocks(making, compiled.entered)
    rows = [row for block in blocks for row in _source(making, compiled, broken, *block)]
    making.compilation.panes = [p for p in making.compilation.panes if p.kind != "source"]
    making.compilation.panes.insert(0, Pane("source", "source", tuple(rows)))


def _blocks(making: Making, codes: Iterable[CodeType]) -> Iterator[tuple[str, str, int, int]]:
    """Yield name, file, first and last line of each function, and of other lines of origins."""
    shown: set[tuple[str, int]] = set()
    for code in codes:
        file, first = code.co_filename, code.co_firstlineno
        last = first + len(source_lines(code)) - 1
        is_read = any((file, number) in making.lines for number in range(first, last + 1))
        if (file, first) in shown or (file.startswith(PACKAGE) and not is_read):
            continue
        shown |= {(file, number) for number in range(first, last + 1)}
        yield code.co_qualname, file, first, last
    for file, number in sorted(making.lines - shown):
        yield "", file, number, number


def _source(
    making: Making,
    compiled: CompiledFrame,
    broken: tuple[str, int] | None,
    name: str,
    file: str,
    first: int,
    last: int,
) -> Iterator[Row]:
    yield Row(f"{name or 'line'}: {file}", mark="head")
    for number in range(first, last + 1):
        text = linecache.getline(file, number).rstrip("\n")
        evaluated = "captured" if (file, number) in compiled.lines else ""
        mark = "break" if (file, number) == broken else evaluated
        key = f"s{making.store.file(file)}:{number}"
        yield Row(f"{number:>5}  {text}", key, (), mark)
