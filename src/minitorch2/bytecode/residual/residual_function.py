"""Residual code: the Python that is left of a frame once its tensor operations are in a graph.

The residual of a frame is Python source, one statement a line, each with the user's line it stands
for::

    residual ::= def name(parameters):          the captured frame's parameters, in slot order
                     __drawn_0 = generator.random()      random numbers
                     outputs = __compiled_fn_0(inputs) | guarded call
                     temporary = expression      values that live on, loaded or rebuilt
                     place = value               side effects
                     return value | break

    guarded  ::= the call in a ``try``: if the graph raises, `rerun.py` runs the frame in Python

    break    ::= the one unsupported instruction as Python, then
                 return __resume_at_30_1(stack and live variables)

CPython compiles it; line numbers then point into the user's file, so that a traceback through
residual code shows the user's own line. Free variables of the frame stay free variables. Objects
that residual code needs (compiled graphs, continuations, classes) are bound in an enclosing scope
under private names: the user's module gets no new globals.
PyTorch 2 paper, sections 3.2 (step 7) and 3.8.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Final

from minitorch2 import config
from minitorch2.bytecode.frames.compiled_source import compile_function
from minitorch2.bytecode.guards.drawing import Draw, set_state, state_of
from minitorch2.bytecode.guards.sources import GlobalSource, Source
from minitorch2.bytecode.residual.shared_paths import share_paths
from minitorch2.bytecode.trackers.base import Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.references import References
from minitorch2.errors import VerificationError
from minitorch2.foundation.generated_code import keep_source, new_file
from minitorch2.graph.node import Node
from minitorch2.graph.scope import identifier, is_name, keywords, loaded_globals

INDENT = "    "
RERUN: Final = object()
"""Stands for what residual code calls, with the error and the frame's parameters, if its graph
raised: each function has its own."""

_LITERAL = re.compile(r"-?\d+|'[^'\\]*'|\(\)|None|True|False|\.\.\.")


@dataclass(frozen=True)
class Statement:
    """One line of residual code and the user's line that it stands for."""

    text: str
    line: int


@dataclass
class ResidualFunction:
    """Collects the statements of one residual function.

    Args:
        code: the captured frame's code object: file, name and reserved variable names.
        parameters: names of the residual function's parameters.
        namespace: the captured frame's globals.
        references: objects with private names; shared with the guards of the same capture.
        volatile: globals and free variables that side effects change.
        capturing: the name of the context in which calls of other functions are captured.

    Attributes:
        suspended: writes the step with which a frame is suspended (`suspensions.suspended`).

    Statements go to four sections, printed in this order: `draws` of random numbers, `loads` of
    values, side `effects`, and the `tail`, which returns or goes on. A value that is named late is
    still loaded early.
    """

    code: CodeType
    parameters: Sequence[str]
    namespace: dict[str, object]
    references: References
    volatile: Set[str] = frozenset()
    line: int = 0
    draws: list[Statement] = field(default_factory=list)
    loads: list[Statement] = field(default_factory=list)
    effects: list[Statement] = field(default_factory=list)
    tail: list[Statement] = field(default_factory=list)
    outputs: dict[Node, str] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _hints: dict[int, str] = field(default_factory=dict)
    _in_progress: set[int] = field(default_factory=set)
    _kept: list[VariableTracker] = field(default_factory=list)
    _globals_written: set[str] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)
    capturing: str = ""
    _indent: int = 1
    _graph_call: int = 0
    _generators: dict[Source, None] = field(default_factory=dict)
    suspended: Callable[[Evaluator], str] | None = None

    def __post_init__(self) -> None:
        self._section = self.tail

    # Values --------------------------------------------------------------------------------------

    def name_for(self, tracker: VariableTracker) -> str:
        """Return an expression for the value that may be repeated: a name or a small literal.

        One tracker always gets one name, so objects keep their identity.

        Raises:
            UnsupportedError: the value cannot be rebuilt.
        """
        if id(tracker) not in self._names:
            self._names[id(tracker)] = self._build(tracker)
            self._kept.append(tracker)
        return self._names[id(tracker)]

    def is_named(self, tracker: VariableTracker) -> bool:
        """Return whether residual code refers to the value already."""
        return id(tracker) in self._names

    def set_name(self, tracker: VariableTracker, name: str) -> None:
        """Say under which name residual code holds a value that it already has."""
        self._names[id(tracker)] = name
        self._kept.append(tracker)

    def hint(self, tracker: VariableTracker, name: str) -> None:
        """Suggest the user's own variable name for a value."""
        self._hints.setdefault(id(tracker), name)

    def bind(self, expression: str, base: str = "value") -> str:
        """Load the expression into a new local variable, before any effect; return its name."""
        name = self.new_name(base)
        self.loads.append(Statement(f"{INDENT}{name} = {expression}", self.line))
        return name

    def operand(self, tracker: VariableTracker) -> str:
        """Return an expression for a value used once, at once: a global may stay a global."""
        source = tracker.source
        if id(tracker) in self._names or not isinstance(source, GlobalSource):
            return self.name_for(tracker)
        return self.name_for(tracker) if source.name in self.volatile else source.name

    def arguments(self, args: Iterable[VariableTracker], kwargs: Keywords) -> str:
        """Return the text of a call's arguments, each of which is used once, at once."""
        named = {name: self.operand(value) for name, value in kwargs.items()}
        return ", ".join([*map(self.operand, args), *keywords(named)])

    def _build(self, tracker: VariableTracker) -> str:
        if id(tracker) in self._in_progress:
            unsupported("cyclic-value", f"{tracker} contains itself")
        self._in_progress.add(id(tracker))
        try:
            with self.writing(self.loads):
                expression = tracker.reconstruct(self)
        finally:
            self._in_progress.discard(id(tracker))
        if _LITERAL.fullmatch(expression) or self._is_own_name(expression):
            return expression
        return self.bind(expression, self._hints.get(id(tracker), _base_of(tracker)))

    def _is_own_name(self, expression: str) -> bool:
        """Return whether an expression is a variable that only this residual function assigns."""
        own = expression in self.parameters or expression in self._used
        return own or expression in self.references.values

    def load(self, source: Source) -> str:
        """Return an expression that loads the value again from its source."""
        return source.expression(self.reference)

    def keywords(self, values: Mapping[str, VariableTracker]) -> list[str]:
        """Return the keyword arguments of a call as text."""
        return keywords({name: self.name_for(value) for name, value in values.items()})

    def graph_output(self, node: Node, tracker: VariableTracker | None = None) -> str:
        """Make a node an output of the graph; return the local variable that receives it."""
        if node not in self.outputs:
            hint = None if tracker is None else self._hints.get(id(tracker))
            self.outputs[node] = self.new_name(hint or node.name, is_hint=hint is not None)
        return self.outputs[node]

    def reference(self, value: object, base: str = "") -> str:
        """Return the private name of an object; one that it stands in for gives its own name."""
        made = self.references.stands_for(value)
        return self.references.name(value, base) if made is None else self.name_for(made)

    def global_place(self, namespace: dict[str, object], name: str) -> str:
        """Return the target of an assignment to a global variable of any module."""
        if namespace is self.namespace and self._may_declare_global(name):
            self._globals_written.add(name)
            return name
        return f"{self.references.globals_name(namespace)}[{name!r}]"

    def _may_declare_global(self, name: str) -> bool:
        code = self.code
        local = {*self.parameters, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
        return is_name(name) and name not in local and not hasattr(builtins, name)

    def new_name(self, base: str, *, is_hint: bool = False) -> str:
        """Return a fresh variable name; a hint may name a user's variable but not a parameter."""
        base = identifier(base).strip("_") or "value"
        is_own = is_hint and self._is_unused_variable(base)
        name = base if is_own else self.references.scope.fresh(base)
        self._used.add(name)
        return name

    def _is_unused_variable(self, name: str) -> bool:
        """Return whether a name is a variable of the frame, and means nothing else here."""
        code = self.code
        others = (self.parameters, code.co_cellvars, code.co_freevars, self._used, self.namespace)
        return name in code.co_varnames and not any(name in names for names in others)

    # Text ----------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        """Append a statement to the current section."""
        self._section.append(Statement(INDENT * self._indent + text, self.line))

    def emit_in_block(self, text: str) -> None:
        """Append a statement to the block that the last statement opened, and leave the block."""
        self.indent()
        self.emit(text)
        self.indent(-1)

    @contextmanager
    def dropping(self, exception: str) -> Iterator[None]:
        """Drop an exception behind a block that leaves the frame, which its traceback may hold."""
        self.emit("try:")
        self.indent()
        yield
        self.indent(-1)
        self.emit("finally:")
        self.emit_in_block(f"del {exception}")

    @contextmanager
    def writing(self, section: list[Statement]) -> Iterator[None]:
        """Put statements that are emitted inside the block into this section."""
        saved = self._section, self._indent
        self._section, self._indent = section, 1
        try:
            yield
        finally:
            self._section, self._indent = saved

    def indent(self, levels: int = 1) -> None:
        """Indent the statements that follow by some levels (negative: less)."""
        self._indent += levels

    def call_graph(
        self,
        name: str,
        inputs: Sequence[Source],
        nodes: Sequence[Node],
        line: int,
        changed: Mapping[Node, Callable[..., object]],
    ) -> None:
        """Put the call of the compiled graph in front of all statements.

        Args:
            changed: results that get an operator of their own, in which they are replaced.
        """
        targets = ", ".join(self.outputs[node] for node in nodes)
        paths, arguments = share_paths(inputs, self.new_name, self.reference)
        call = f"{name}({', '.join(arguments)})"
        if nodes:
            call = f"{targets}{',' if len(nodes) == 1 else ''} = {call}"
        self._graph_call = len(paths)
        names = {self.outputs[node]: self.reference(f, "changed") for node, f in changed.items()}
        made = [f"{output} = {function}({output})" for output, function in names.items()]
        self.loads[:0] = [Statement(INDENT + text, line) for text in [*paths, call, *made]]

    def rerun_if_graph_raises(self) -> None:
        """Let Python run the frame if the call of the graph raises: nothing was done yet."""
        call = self.loads[self._graph_call]
        error, rerun = self.new_name("error"), self.reference(RERUN, "rerun_in_python")
        caught = self.new_name(f"caught_{error}")
        text = [
            f"{error} = None",
            "try:",
            INDENT + call.text.strip(),
            f"except Exception as {caught}:",
            f"{INDENT}{error} = {caught}",
            f"if {error} is not None:",
            *(f"{INDENT}{statement}" for statement in self._undo_draws()),
            f"{INDENT}return {rerun}({', '.join([error, *self.parameters])})",
        ]
        place = slice(self._graph_call, self._graph_call + 1)
        self.loads[place] = [Statement(INDENT + each, call.line) for each in text]

    def draw(self, draw: Draw) -> None:
        """Draw a random number before the graph is called."""
        text = f"{INDENT}{draw.name} = {draw.expression(self.reference)}"
        self.draws.append(Statement(text, self.line))
        self._generators.setdefault(draw.generator)

    def _undo_draws(self) -> Iterator[str]:
        """Yield statements that give generators back their states at the frame's begin."""
        read, write = (self.reference(function) for function in (state_of, set_state))
        for generator in self._generators:
            state = self.new_name("state")
            path = generator.expression(self.reference)
            self.draws.insert(0, Statement(f"{INDENT}{state} = {read}({path})", self.line))
            yield f"{write}({path}, {state})"

    def source(self) -> str:
        """Return the residual function as Python text."""
        return "\n".join(text for text, _ in self._lines()) + "\n"

    def _lines(self) -> list[tuple[str, int]]:
        first = self.code.co_firstlineno
        name = self.code.co_name if self.code.co_name.isidentifier() else "anonymous"
        lines = [(f"def {name}({', '.join(self.parameters)}):", first)]
        if self._globals_written:
            lines.append((f"{INDENT}global {', '.join(sorted(self._globals_written))}", first))
        statements = [*self.draws, *self.loads, *self.effects, *self.tail]
        return lines + [(s.text, s.line or first) for s in statements]

    def _bind_shadowed_builtins(self) -> None:
        """Bind the real builtins that this text mentions, where the user's module shadows them.

        Text that reads the user's global asks the module for it.
        """
        mentioned = set(_IDENTIFIER.findall(self.source())) & self.namespace.keys()
        for name in mentioned & vars(builtins).keys() - self.references.values.keys():
            if not name.startswith("__"):
                self.references.replace(name, getattr(builtins, name))

    def compile(self) -> CodeType:
        """Return the code object of the residual function, with the user's file, lines and name.

        Its free variables are those of the frame and private names of `References`.

        Raises:
            SyntaxError: a statement is not Python: a bug of this module.
        """
        self._bind_shadowed_builtins()
        free = [*self.code.co_freevars, *self.references.values]
        settings = config.current()
        if settings.step_residual_code:
            code = self._compile_as_its_own_file(free)
        else:
            code = compile_function(self._lines(), free, self.code)
        if settings.verify:
            self._check_names(code)
        return code

    def _check_names(self, code: CodeType) -> None:
        """Check that the names that residual code makes up are bound; others are the user's own.

        Raises:
            VerificationError: one is not bound.
        """
        known = {*self.namespace, *vars(builtins), *self.code.co_names, *self._globals_written}
        if unbound := loaded_globals(code) - known:
            cause = f"residual code loads {sorted(unbound)}:\n{self.source()}"
            raise VerificationError(cause, code="residual-names")

    def _compile_as_its_own_file(self, free: Sequence[str]) -> CodeType:
        """Compile it with its own text's lines, which debuggers find in `linecache`."""
        file = new_file("residual", self.code.co_qualname)
        stands_for = self.code.replace(co_filename=file, co_firstlineno=1)
        lines = [(text, number) for number, (text, _) in enumerate(self._lines(), 1)]
        code = compile_function(lines, free, stands_for)
        keep_source(code, self.source())
        return code


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def _base_of(tracker: VariableTracker) -> str:
    name = type(tracker).__name__.removesuffix("Variable")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() or "value"
