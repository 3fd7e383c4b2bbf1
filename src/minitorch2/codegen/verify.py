"""Check a wrapper's text: every value is in place when it is read, and no memory outlives its use.

The text is read again, as Python, and run on *ghosts*: each place of memory is known by the buffers
whose values it holds at the moment. Schedule and kernels say which buffers a statement reads and
writes; the text says which memory it is given. The state of the printer is not used. So a read of a
buffer that was overwritten, freed, never made, or lies elsewhere in the arena, is found.

    rules     a name means something where it is read, and is freed once
              what is read holds the value of the buffer that the schedule means
              memory of the caller is written only if it was given away
              tensors and arenas are as large as what is stored in them
              kernels of one launch do not meet in memory
              names are dropped with their last use; results are still there at the end
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import NoReturn

import torch

from minitorch2.codegen.ghosts import Place, Storage
from minitorch2.codegen.memory import bytes_of
from minitorch2.codegen.target import Launch
from minitorch2.errors import VerificationError
from minitorch2.loopir.buffers import Buffer, BufferView, HostCall, InputBuffer
from minitorch2.loopir.lower_graph import LoweredGraph
from minitorch2.loopir.schedule import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    KernelNode,
    NopKernelSchedulerNode,
    Schedule,
    buffers_of,
    kernels_in,
)

_ALLOCATIONS = ("empty_cpu", "empty_gpu", "empty_strided")


@dataclass(frozen=True)
class Facts:
    """The sources of a wrapper's text; ``objects`` are given to it under these names."""

    lowered: LoweredGraph
    schedule: Schedule
    launches: Mapping[str, Launch]
    objects: Collection[str]

    def owner(self, name: str) -> str:
        """Return the buffer that was allocated with the memory of another."""
        return self.schedule.inplace.owner(name)

    def generation(self, name: str) -> int:
        """Return the number of buffers that had the memory of a buffer before it."""
        count = 0
        while name in self.schedule.inplace:
            name, count = self.schedule.inplace[name], count + 1
        return count

    @cached_property
    def wanted(self) -> frozenset[str]:
        """The buffers that a node reads, or the caller gets."""
        read = (name for node in self.schedule.nodes for name in node.read_names)
        return frozenset(read) | self.lowered.output_names

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of the kernels' functions."""
        return frozenset(call.name for call in self.launches.values())

    def is_silent(self, node: BaseSchedulerNode) -> bool:
        """Return whether a node needs no statement: its result is unread, or has no elements."""
        if isinstance(node, NopKernelSchedulerNode):
            return node.name not in self.wanted and not node.buffer.symbols
        launch = self.launches.get(node.name)
        return launch is not None and [k.iterations for k in launch.kernels] == [0]


def verify_wrapper(text: str, facts: Facts) -> None:
    """Check the text of a wrapper's module.

    Raises:
        VerificationError: it breaks one of the rules above.
    """
    module = ast.parse(text)
    call = next(s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == "call")
    known = {name for statement in module.body for name in _defined_by(statement)}
    _Ghost(facts, known | {*dir(builtins), "args", *facts.objects}).run(call.body)
    _check_deaths(call.body, facts)


@dataclass
class _Launch:
    """A kernel of a launch, and the places of its buffers, by the buffer that owns the memory."""

    kernel: KernelNode
    places: Mapping[str, Place]


@dataclass
class _Ghost:
    """The interpreter of `call` on places; ``known`` are names of functions, sizes and the like."""

    facts: Facts
    known: set[str]
    memory: dict[str, Place] = field(default_factory=dict)
    given_away: dict[str, Place] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        lowered, nodes = self.facts.lowered, self.facts.schedule.nodes
        self.inputs = {b.name: b for b in lowered.inputs if isinstance(b, InputBuffer)}
        self.buffers: dict[str, Buffer] = {**self.inputs, **lowered.constants, **buffers_of(nodes)}
        self.pending = deque(node for node in nodes if not self.facts.is_silent(node))
        self.unchanged = {b for n in nodes if self.facts.is_silent(n) for b in n.written_names}
        self.memory |= {name: self._given(name) for name in lowered.constants}

    def run(self, body: Sequence[ast.stmt]) -> None:
        """All statements, in order."""
        for statement in body:
            self.text = ast.unparse(statement)
            for name in _loaded(statement):
                if name not in self.known and name not in self.memory:
                    self._fail(f"{name} is not there")
            self._run(statement)
        if self.pending:
            self._fail(f"{self.pending[0].name} is never computed")

    def _run(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Delete(targets):
                for name in map(ast.unparse, targets):
                    self._free(name)
            case ast.Return(ast.List(elements)):
                self._return(elements)
            case ast.Assign([target], value):
                self._assign(_names_in(target), value)
            case ast.Expr(ast.Call(ast.Name(name), arguments)):
                self._call(name, arguments)
            case ast.Expr(ast.Call(ast.Attribute())) | ast.If():
                pass  # args.clear(), and the call on another device
            case _:
                self._fail("wrappers have no such statements")

    def _call(self, name: str, arguments: Sequence[ast.expr]) -> None:
        if name in self.facts.functions:
            self._launch(name, arguments)
        elif not name.startswith("assert_"):
            self._host_call([])

    # -- tensors -----------------------------------------------------------------------------------

    def _assign(self, names: Sequence[str], value: ast.expr) -> None:
        function = value.func if isinstance(value, ast.Call) else None
        node = self.pending[0] if self.pending else None
        if isinstance(value, ast.Name) and value.id == "args":
            self._take_inputs(names)
        elif isinstance(value, ast.Name) and value.id in self.memory:
            self.memory[names[0]] = self.memory[value.id]
            if names[0] in self.unchanged:
                self._write(self.memory[names[0]], names[0])
        elif isinstance(function, ast.Name) and function.id in _ALLOCATIONS:
            self.memory[names[0]] = Place(Storage(_bytes_in(value)))
        elif ast.unparse(value) == "arena.data_ptr()":
            self.memory["base"] = self.memory["arena"]
        elif isinstance(function, ast.Attribute) and function.attr == "to":
            (source,) = _loaded(value)
            self.memory[names[0]] = Place(Storage.of(source))
        elif node is not None and [node.name] == [*names]:
            self._make(node, value)
        elif isinstance(function, ast.Name) and function.id == "current_stream":
            self.known |= {*names}
        elif isinstance(function, ast.Name) and names[0] not in self.memory:
            self._host_call(names)
        else:
            self.known |= {*names} - self.memory.keys()  # sizes, and a result in its layout

    def _take_inputs(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.inputs:
                self.memory[name] = self._given(name)
            else:
                self.known.add(name)

    def _given(self, name: str) -> Place:
        """Return the memory of an input or a constant."""
        buffer = self.buffers[name]
        is_ours = isinstance(buffer, InputBuffer) and (buffer.donated or buffer.becomes is not None)
        return Place(Storage.of(name, bytes_of(buffer), is_ours=is_ours))

    def _make(self, node: BaseSchedulerNode, value: ast.expr) -> None:
        """A library call, or one of its results."""
        self.pending.popleft()
        out = _keyword(value, "out")
        for name in _loaded(value) & self.memory.keys():
            if name != out:
                self._read(self.memory[name], name)
        for name in self._read_by(node) - _loaded(value):
            self._fail(f"{node.name} needs {name}, which is not read")
        if out is not None:
            self.memory[node.name] = self.memory[out]
            self._write(self.memory[out], node.name)
        elif node.name in self.given_away:
            self.memory[node.name] = self.given_away[node.name]
        else:
            self.memory[node.name] = Place(Storage.of(node.name, self._bytes(node.name)))
        if isinstance(node, ExternKernelSchedulerNode):
            for result, name in node.kernel.given_away().items():
                self.given_away[result] = self.memory[name]
                self._write(self.memory[name], result)

    def _read_by(self, node: BaseSchedulerNode) -> frozenset[str]:
        return node.read_names - self.facts.lowered.constants.keys()

    def _host_call(self, names: Sequence[str]) -> None:
        node = self.pending.popleft() if self.pending else None
        is_host = isinstance(node, ExternKernelSchedulerNode) and isinstance(node.kernel, HostCall)
        if not is_host:
            self._fail("the schedule has no such call here")
        self.known |= {*names}

    def _free(self, name: str) -> None:
        if name not in self.memory:
            self._fail(f"{name} is freed, and is not there")
        del self.memory[name]

    def _return(self, elements: Sequence[ast.expr]) -> None:
        outputs = self.facts.lowered.outputs
        for element, output in zip(elements, outputs, strict=True):
            if isinstance(output, BufferView):
                if output.name not in _loaded(element):
                    self._fail(f"{output.name} is not returned")
                self._read(self.memory[output.name], output.name)

    # -- kernels -----------------------------------------------------------------------------------

    def _launch(self, name: str, arguments: Sequence[ast.expr]) -> None:
        node = self.pending.popleft() if self.pending else None
        call = None if node is None else self.facts.launches.get(node.name)
        if node is None or call is None or call.name != name:
            self._fail("the schedule has another kernel here")
        launches = [*self._launches(kernels_in(node), call, [*arguments])]
        for launch in launches:
            for name, place in self._reads(launch).items():
                self._read(place, name)
        for one, other in permutations(launches, 2):
            self._check_apart(one, other)
        for launch in launches:
            for name, place in self._writes(launch).items():
                self._write(place, name)

    def _launches(
        self, nodes: Sequence[KernelNode], call: Launch, arguments: Sequence[ast.expr]
    ) -> Iterator[_Launch]:
        """Yield the kernels of a launch, with the memory that they are given.

        A target may print several kernels of the schedule as one, whose arguments they share.
        """
        groups = [[node] for node in nodes] if len(call.kernels) > 1 else [nodes]
        for group, kernel in zip(groups, call.kernels, strict=True):
            first = 2 if call.takes_stream else 1
            behind = first + len(kernel.buffers)
            places = dict(
                zip(kernel.buffers, map(self._place, arguments[first:behind]), strict=True)
            )
            yield from (_Launch(node, places) for node in group)
            arguments = arguments[behind + len(kernel.sizes) :]

    def _reads(self, launch: _Launch) -> dict[str, Place]:
        """Return the buffers that a kernel reads and has not computed itself, with their places."""
        return self._places(launch, launch.kernel.read_names - launch.kernel.written_names)

    def _writes(self, launch: _Launch) -> dict[str, Place]:
        """Return the buffers that a kernel stores, with their places."""
        return self._places(launch, launch.kernel.written_names)

    def _places(self, launch: _Launch, names: frozenset[str]) -> dict[str, Place]:
        given = launch.places
        here = sorted(names - self.facts.schedule.removed, key=self.facts.generation)
        return {name: given[owner] for name in here if (owner := self.facts.owner(name)) in given}

    def _check_apart(self, one: _Launch, other: _Launch) -> None:
        """Check that no kernel of a launch reads or writes memory that another one writes."""
        used = self._reads(other) | self._writes(other)
        for name, place in self._writes(one).items():
            for met, there in used.items():
                if place.meets(self._bytes(name), there, self._bytes(met)):
                    self._fail(f"{name} is written where {met} of the same launch lies")

    def _place(self, argument: ast.expr) -> Place:
        """Return the memory that a kernel is given: ``buf0``, ``base``, ``base + 64``."""
        name, plus, offset = ast.unparse(argument).partition(" + ")
        if name not in self.memory or (plus and name != "base"):
            self._fail(f"{ast.unparse(argument)} is no memory")
        return Place(self.memory[name].storage, int(offset)) if plus else self.memory[name]

    # -- values ------------------------------------------------------------------------------------

    def _read(self, place: Place, name: str) -> None:
        if self._bytes(name) != 0 and not place.holds(name):
            self._fail(f"{name} is read where {place.contents()} lies")

    def _write(self, place: Place, name: str) -> None:
        size, room = self._bytes(name), place.room
        if not place.storage.is_ours:
            self._fail(f"{name} is written into memory of the caller")
        if size is not None and room is not None and size > room:
            self._fail(f"{name} has {size} bytes and gets {room}")
        place.write(name, size)

    def _bytes(self, name: str) -> int | None:
        return bytes_of(self.buffers[name])

    def _fail(self, what: str) -> NoReturn:
        raise VerificationError(f"in the wrapper's `{self.text}`: {what}", code="wrapper")


def _check_deaths(body: Sequence[ast.stmt], facts: Facts) -> None:
    """Check that names are dropped before any work that follows their last use."""
    inputs = (b.name for b in facts.lowered.inputs if isinstance(b, InputBuffer))
    # No statement tells the place of a silent node, which may be the last to need a name.
    silent = (node for node in facts.schedule.nodes if facts.is_silent(node))
    placeless = {name for node in silent for name in (*node.read_names, *node.written_names)}
    arena = set[str]() if placeless else {"base"}
    memory = {*buffers_of(facts.schedule.nodes), *inputs} - placeless | arena
    last: dict[str, int] = {}
    for place, statement in enumerate(body):
        if not isinstance(statement, ast.Delete):
            last |= dict.fromkeys(_loaded(statement) | _stored(statement), place)
    ends = defaultdict[int, set[str]](set)
    for name, place in last.items():
        ends[place].add(name)
    alive: set[str] = set()
    late: set[str] = set()
    for place, statement in enumerate(body):
        late |= ends[place - 1] & alive
        if isinstance(statement, ast.Delete):
            freed = {*map(ast.unparse, statement.targets)}
            alive -= freed
            late -= freed
        if late and _computes(statement):
            line = ast.unparse(statement)
            raise VerificationError(f"in the wrapper, {min(late)} lives on in `{line}`")
        alive |= _stored(statement) & memory


_PARTS_OF_A_CALL = ("assert_", "with_layout")
"""Functions that look at the result of the statement before them."""


def _computes(statement: ast.stmt) -> bool:
    """Return whether a statement allocates, launches or calls."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Name) and not function.id.startswith(_PARTS_OF_A_CALL)


# Python's syntax


def _loaded(tree: ast.AST) -> set[str]:
    """Return the names that a statement reads."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}


def _stored(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {name for target in targets for name in _names_in(target)}


def _names_in(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _defined_by(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of the module defines."""
    match statement:
        case ast.Import(names) | ast.ImportFrom(_, names):
            return {(alias.asname or alias.name).split(".")[0] for alias in names}
        case ast.FunctionDef(name):
            return {name}
    return _stored(statement)


def _keyword(call: ast.expr, key: str) -> str | None:
    """Return the name that a call is given for a parameter."""
    given = call.keywords if isinstance(call, ast.Call) else []
    return next((ast.unparse(k.value) for k in given if k.arg == key), None)


def _bytes_in(call: ast.expr) -> int | None:
    """Return the bytes of ``empty_cpu(size, stride, dtype)``; None if they vary."""
    assert isinstance(call, ast.Call)
    try:
        size, stride = map(ast.literal_eval, call.args[:2])
    except ValueError:
        return None
    dtype = _keyword(call, "dtype") or ast.unparse(call.args[2])
    item: int = getattr(torch, dtype.removeprefix("torch.")).itemsize
    last = sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return 0 if 0 in size else (last + 1) * item
