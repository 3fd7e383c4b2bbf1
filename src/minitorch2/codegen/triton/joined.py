"""Several small kernels in one launch: its programs are divided among them.

    kernel   ::= device function* "def" name (pointer*): choice
    choice   ::= if program < n: choice else: choice         between device functions
              |  if program < n: part else: part   call      one of them, for one part or another
    part     ::= the pointers and the size of one kernel, and its first program

Kernels that compute the same with other memory, as an optimizer does for each of its parameters,
are parts of one device function, which is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from minitorch2.codegen.common import INDENT, user_lines
from minitorch2.codegen.target import Kernel
from minitorch2.codegen.triton import KernelSource
from minitorch2.codegen.triton.blocks import pointwise_blocks
from minitorch2.codegen.triton.domain import KernelDomain, choose_domain
from minitorch2.codegen.triton.indexing import XNUMEL
from minitorch2.codegen.triton.kernel import (
    IMPORTS,
    KernelPrinter,
    function_text,
    pointer_types,
)
from minitorch2.codegen.triton.own_kernels import OwnKernelNode
from minitorch2.graph.symbols import free_symbols
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import product
from minitorch2.loopir.schedule import JoinedSchedulerNode, KernelNode, Refusal

BLOCK = pointwise_blocks(1024)
"""The block of kernels without reductions, so that each of them can share a device function."""


def why_alone(kernel: KernelNode, buffers: Mapping[str, Buffer]) -> Refusal | None:
    """Return the reason why a kernel cannot share a launch, or None if it can."""
    if isinstance(kernel, OwnKernelNode):
        return Refusal("a template has its own launch")
    if not all(isinstance(size, int) for size in kernel.group):
        return Refusal("its programs are not known when the launch is printed")
    domain = _domain(kernel, buffers, frozenset())
    if domain.blocks.warps > BLOCK.warps:
        return Refusal(f"its blocks take {domain.blocks.warps} warps, others {BLOCK.warps}")
    sizes = KernelPrinter(kernel, buffers, frozenset(), {}, domain, program="program").write()[2]
    if any(free_symbols(size.value) for size in sizes):
        return Refusal("it reads numbers that vary, which are arguments of a launch of its own")
    return None


@dataclass(frozen=True)
class _Part:
    """One kernel of the launch: its code, its pointers and its size."""

    code: str
    parameters: tuple[str, ...]
    blocks: str
    types: tuple[str, ...]
    pointers: tuple[str, ...]
    size: int | None
    programs: int
    checks_indices: bool

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties that parts of one device function have in common."""
        return self.code, self.blocks, self.types

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of the device function."""
        yield from self.pointers
        if self.size is not None:
            yield str(self.size)


def print_joined_kernel(
    node: JoinedSchedulerNode,
    buffers: Mapping[str, Buffer],
    *,
    name: str,
    removed: frozenset[str],
    inplace: Mapping[str, str],
) -> Kernel[KernelSource]:
    """Print one kernel for all kernels of a node."""
    parts = [_print_part(kernel, buffers, removed, inplace) for kernel in node.kernels]
    joint = _Joint(parts)
    checks = ", checks_indices=True" if any(part.checks_indices for part in parts) else ""
    types = " ".join(joint.types.values())
    decorator = f'@joined(pointers="{types}", num_warps={BLOCK.warps}{checks})'
    comments = "".join(f"{line}\n" for line in user_lines(node))
    body = "".join(f"{INDENT}{line}\n" for line in joint.body())
    head = f"{decorator}\n@triton.jit\ndef {name}({', '.join(joint.names.values())}):\n"
    text = f"{IMPORTS.format(decorator='joined')}\n\n{joint.functions()}{comments}{head}{body}"
    return Kernel(KernelSource(name, text), _programs(parts), tuple(joint.types), ())


def _domain(
    kernel: KernelNode, buffers: Mapping[str, Buffer], removed: frozenset[str]
) -> KernelDomain:
    """Return the domain of a part. The size of one that is a plain loop is an argument."""
    domain = choose_domain(kernel, buffers, removed)
    if domain.ynumel is None and domain.rnumel is None:
        return KernelDomain(BLOCK, XNUMEL)
    return domain


def _print_part(
    kernel: KernelNode,
    buffers: Mapping[str, Buffer],
    removed: frozenset[str],
    inplace: Mapping[str, str],
) -> _Part:
    domain = _domain(kernel, buffers, removed)
    printer = KernelPrinter(kernel, buffers, removed, inplace, domain, program="program")
    lines, pointers, sizes = printer.write()
    numel = product(kernel.group) if sizes else None
    assert len(sizes) <= 1 and (numel is None or isinstance(numel, int))
    programs = domain.programs if numel is None else KernelDomain(BLOCK, numel).programs
    assert isinstance(programs, int)
    parameters = [argument.name for argument in (*pointers, *sizes)]
    return _Part(
        function_text(["program", *parameters], domain.blocks, lines),
        tuple(parameters),
        ", ".join(f"{key}={size}" for key, size in domain.blocks.parameters().items()),
        pointer_types(pointers, buffers),
        tuple(str(p.value) for p in pointers),
        numel,
        programs,
        printer.handler.checks_indices,
    )


class _Joint:
    """The text around parts; those of one device function follow each other."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        kinds: dict[object, list[_Part]] = {}
        for part in parts:
            kinds.setdefault(part.kind, []).append(part)
        self.kinds = list(kinds.values())
        self.types = {p: t for part in parts for p, t in zip(part.pointers, part.types)}
        self.names = {buffer: f"ptr{number}" for number, buffer in enumerate(self.types)}

    def functions(self) -> str:
        """Return the device functions."""
        return "".join(
            f"@triton.jit\ndef part{number}{kind[0].code}\n\n"
            for number, kind in enumerate(self.kinds)
        )

    def body(self) -> list[str]:
        """Return the lines that find the part that a program does."""
        calls = [(_programs(kind), self._call(number)) for number, kind in enumerate(self.kinds)]
        return ["program = tl.program_id(0)", *_choose(calls, 0)]

    def _call(self, number: int) -> Callable[[int], list[str]]:
        """Return the lines that call a device function, given the first program that does."""
        kind = self.kinds[number]
        names = [f"{parameter}_{number}" for parameter in (*kind[0].parameters, "first")]

        def assignments(part: _Part) -> Callable[[int], list[str]]:
            values = [self.names.get(argument, argument) for argument in part.arguments()]
            return lambda first: [
                f"{name} = {value}" for name, value in zip(names, (*values, first), strict=True)
            ]

        parts = [(part.programs, assignments(part)) for part in kind]
        arguments = ", ".join([f"program - {names[-1]}", *names[:-1], kind[0].blocks])
        return lambda first: [*_choose(parts, first), f"part{number}({arguments})"]


def _programs(parts: Iterable[_Part]) -> int:
    return sum(part.programs for part in parts)


def _choose(ways: Sequence[tuple[int, Callable[[int], list[str]]]], first: int) -> list[str]:
    """Print a choice between several ways by halving; each serves a number of programs."""
    if len(ways) == 1:
        return ways[0][1](first)
    half = len(ways) // 2
    middle = first + sum(programs for programs, _ in ways[:half])
    yes, no = _choose(ways[:half], first), _choose(ways[half:], middle)
    indented = [[f"{INDENT}{line}" for line in lines] for lines in (yes, no)]
    return [f"if program < {middle}:", *indented[0], "else:", *indented[1]]
