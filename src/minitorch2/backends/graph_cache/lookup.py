"""Compile a captured graph, or find it compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from minitorch2 import cache, stages
from minitorch2.autograd import aot_autograd
from minitorch2.autograd.compiled_program import CompiledProgram, Run
from minitorch2.autograd.runtime import Compiler
from minitorch2.backends.graph_cache.bypass import Bypass, check, is_unwanted, note_bypass
from minitorch2.backends.graph_cache.entry import Entry, count_again, counted
from minitorch2.backends.graph_cache.key import key_of_graph
from minitorch2.backends.graph_cache.sizes import Guards, Sizes
from minitorch2.codegen.spelling import UnspellableError
from minitorch2.codegen.target import Target
from minitorch2.graph.compiled_graph import CompiledGraph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)


@dataclass(frozen=True)
class Compilers:
    """The compilers of a program's forward and backward graphs."""

    forward: Compiler
    backward: Compiler

    def program(self, gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Run:
        """Return a captured graph compiled as a whole, by `aot_autograd`."""
        forward, backward = self.forward, self.backward
        return aot_autograd(
            gm, example_inputs, forward_compiler=forward, backward_compiler=backward, **options
        )


Build: TypeAlias = Callable[[GraphModule, list[Any], Compilers], Run]
"""What a backend does with a captured graph and compilers of its functional graphs."""


@dataclass(frozen=True)
class _Known:
    """The guards and counts of a program of this process, for its next use."""

    guards: Guards
    counts: dict[str, int]


_PROGRAMS: WeakValueDictionary[str, CompiledProgram] = WeakValueDictionary()
"""Those that are in use in this process, by the digests of their keys."""
_KNOWN: WeakKeyDictionary[CompiledProgram, _Known] = WeakKeyDictionary()


def compiled_once(
    module: GraphModule, examples: list[Any], target: Target[Any], build: Build
) -> Run:
    """``build(module, examples, compilers)``, or the same from the cache.

    Counted as ``graphs_shared`` (with a graph of this process), ``graphs_loaded`` (from the disk),
    ``graphs_compiled`` or ``graphs_bypassed``.
    """
    if is_unwanted(target):
        compiler = _new_compiler(target)
        return build(module, examples, Compilers(compiler, compiler))
    try:
        with stages.phase("lookup"):
            check(module, examples, target)
            sizes = Sizes.of(module)
            key = key_of_graph(module, examples, target, sizes.text)
            program = _found(key, sizes)
    except Bypass as reason:
        _LOGGER.debug("a graph is compiled anew: %s", reason)
        note_bypass(str(reason))
        compiler = _new_compiler(target)
        return build(module, examples, Compilers(compiler, compiler))
    if program is not None:
        return program.linked(module)
    stages.count("graphs_compiled")
    return _Compilation(key, sizes, target).run(module, examples, build)


def _new_compiler(target: Target[Any]) -> Callable[..., CompiledGraph]:
    # Deferred: it imports lowerings, scheduler and printers, which a process whose graphs are all
    # in the cache does not need.
    written = import_module("minitorch2.codegen.compile_graph")
    return written.GraphCompiler(target)  # type: ignore[no-any-return]


def _found(key: cache.Key, sizes: Sizes) -> CompiledProgram | None:
    """Return the program of this key, if its guards hold of the present sizes."""
    program = _PROGRAMS.get(key.digest)
    if program is not None and sizes.admit(_KNOWN[program].guards):
        stages.count("graphs_shared")
        count_again(_KNOWN[program].counts)
        return program
    payload = cache.load(key)
    entry = None if payload is None else Entry.read(payload)
    if entry is None or not sizes.admit(entry.guards):
        return None
    stages.count("graphs_loaded")
    count_again(entry.counts[0])
    program = entry.load()
    _share(key, program, entry)
    return program


def _share(key: cache.Key, program: CompiledProgram, entry: Entry) -> None:
    _PROGRAMS[key.digest] = program
    _KNOWN[program] = _Known(entry.guards, entry.counts[0])


class _Compilation:
    """The compilation of a graph that is stored in the cache when it is complete.

    A backward graph, if there is one, must be compiled first, since both are cut from one joint
    graph.
    """

    def __init__(self, key: cache.Key, sizes: Sizes, target: Target[Any]) -> None:
        self.key = key
        self.sizes = sizes
        self.compiler = _new_compiler(target)
        self.forward: CompiledGraph | None = None
        self.entry: Entry | None = None

    def run(self, module: GraphModule, examples: list[Any], build: Build) -> Run:
        """Return the compiled program's function."""
        with stages.collect(texts=False) as log:
            run = build(module, examples, Compilers(self._compile_forward, self._compile_backward))
        program = getattr(run, "compiled", None)
        if program is None or self.forward is None or self.forward.source is None:
            return run
        try:
            guards, text = self.sizes.learned(), self.forward.source()
            self.entry = Entry(program.plan, guards, text, counts=(counted(log.counts),))
            payload = self.entry.payload()
        except (Bypass, UnspellableError) as reason:
            note_bypass(str(reason))
            self.entry = None
            return run
        _share(self.key, program, self.entry)
        if program.backward is None:
            cache.store(self.key, payload)
        return run

    def _compile_forward(self, module: GraphModule, examples: Sequence[Any]) -> CompiledGraph:
        self.forward = self.compiler(module, examples)
        return self.forward

    def _compile_backward(self, module: GraphModule, examples: Sequence[Any]) -> CompiledGraph:
        compiled = self.compiler(module, examples)
        entry, self.entry = self.entry, None
        if entry is not None and compiled.source is not None:
            try:
                self.entry = entry.followed_by(compiled, compiled.source())
                function = entry.plan.function
                if function and len(self.entry.backward) >= len(function.parts):
                    cache.store(self.key, self.entry.payload())
            except UnspellableError as reason:
                note_bypass(str(reason))
        return compiled
