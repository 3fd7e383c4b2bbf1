"""From fused loop nests to the text of a Triton kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sympy

from minitorch2.codegen import cache
from minitorch2.codegen.common import INDENT, user_lines
from minitorch2.codegen.triton.arguments import KernelArgument, KernelArguments
from minitorch2.codegen.triton.blocks import Blocks, pointwise_blocks, reduction_blocks
from minitorch2.codegen.triton.handler import KernelDomain, TritonHandler
from minitorch2.codegen.triton.indexing import (
    INT32_MAX,
    RINDEX,
    index_ranges,
    split_index,
)
from minitorch2.codegen.triton.passes import domain, split_into_passes
from minitorch2.codegen.triton.values import TRITON_POINTERS
from minitorch2.loopir.buffers import Buffer
from minitorch2.loopir.expressions import Expr, Ranges, product, simplify
from minitorch2.loopir.handlers.recorder import RecordingHandler
from minitorch2.loopir.ops import use_handler
from minitorch2.loopir.schedule import KernelNode, SchedulerNode, bodies

_IMPORTS = """\
import triton
import triton.language as tl

from minitorch2.codegen.triton import library as lib
from minitorch2.codegen.triton.launch import {decorator}
from minitorch2.codegen.triton.library import libdevice
"""


@dataclass(frozen=True)
class KernelSource:
    """The text of a module with one kernel. Only the name and the comments depend on the graph."""

    name: str
    text: str

    def key(self) -> str:
        """Equal for kernels that compute the same, whatever they are called."""
        code = "\n".join(line for line in self.text.splitlines() if not line.startswith("#"))
        return cache.key_of(code.replace(f"def {self.name}(", "def kernel("))


@dataclass(frozen=True)
class TritonKernel:
    """A kernel and its call `kernel(xnumel, *pointers, *sizes)`: pointers name buffers."""

    source: KernelSource
    xnumel: Expr
    pointers: tuple[str, ...]
    sizes: tuple[Expr, ...]


def print_triton_kernel(
    kernel: KernelNode,
    buffers: Mapping[str, Buffer],
    *,
    name: str,
    removed: Iterable[str] = (),
    inplace: Mapping[str, str] | None = None,
) -> TritonKernel:
    """Print the kernel of a node of the schedule.

    Args:
        kernel: the loop bodies, over one domain.
        buffers: every buffer that they read or write, by name.
        name: what the kernel is called.
        removed: buffers that are never stored.
        inplace: for each buffer that takes over the memory of a dead one, that one.

    Raises:
        VerificationError: the bodies do not belong into one kernel.
        LoweringError: Triton has no such dtype or index arithmetic.
    """
    return _KernelPrinter(kernel, buffers, frozenset(removed), inplace or {}).run(name)


def can_write_in_place(kernel: KernelNode) -> bool:
    """Whether an output may take over the memory of an input.

    Not if the kernel loops: a later pass would read what an earlier one has overwritten.
    """
    return not _domain(kernel, 4).looped


class _KernelPrinter:
    def __init__(
        self,
        kernel: KernelNode,
        buffers: Mapping[str, Buffer],
        removed: frozenset[str],
        inplace: Mapping[str, str],
    ) -> None:
        self.kernel = kernel
        self.nodes = bodies(kernel)
        self.buffers = buffers
        self.removed = removed
        itemsize = max(buffers[node.name].dtype.itemsize for node in self.nodes)
        self.domain = _domain(kernel, itemsize)
        self.arguments = KernelArguments(inplace)
        self.handler = TritonHandler(
            {node.name: node for node in self.nodes},
            {buffer: item.dtype for buffer, item in buffers.items()},
            self.domain,
            self.arguments,
            removed,
            frozenset(inplace),
        )

    def run(self, name: str) -> TritonKernel:
        self._print_passes()
        head = self._head()
        pointers = self.arguments.pointers()
        sizes = [*self.arguments.sizes(), *self._extents()]
        parameters = [argument.name for argument in (*pointers, *sizes)]
        lines = [*head, *self.handler.body.outer, *self.handler.final_stores]
        decorator = self._decorator(pointers)
        code = _function(parameters, self.domain.blocks, lines)
        imports = _IMPORTS.format(decorator=decorator.partition("(")[0].removeprefix("@"))
        comments = "".join(f"{line}\n" for line in user_lines(self.kernel))
        text = f"{imports}\n\n{comments}{decorator}\n@triton.jit\ndef {name}{code}"
        return TritonKernel(
            KernelSource(name, text),
            self.domain.xnumel,
            tuple(str(pointer.value) for pointer in pointers),
            tuple(self._number(size) for size in sizes),
        )

    def _number(self, size: KernelArgument) -> Expr:
        if size.name == "xnumel":
            return self.domain.xnumel
        if size.name == "rnumel":
            assert self.domain.rnumel is not None
            return self.domain.rnumel
        return size.value

    # -- the body -------------------------------------------------------------------------------

    def _print_passes(self) -> None:
        passes = split_into_passes(self.nodes, self.removed, self.domain.rnumel is not None)
        for position, one in enumerate(passes):
            for node in one.before:
                self.handler.run(node)
            if one.inside:
                self._print_pass(one.inside, is_last=position == len(passes) - 1)

    def _print_pass(self, nodes: Sequence[SchedulerNode], is_last: bool) -> None:
        if not self.domain.looped:
            for node in nodes:
                self.handler.run(node)
            return
        # What another pass reads again should stay in the cache; the rest should make room.
        self.handler.eviction_policy = "evict_first" if is_last else "evict_last"
        self.handler.body.open_loop(self._loop_head())
        for node in nodes:
            self.handler.run(node)
        rnumel = self.domain.rnumel if isinstance(self.domain.rnumel, int) else "rnumel"
        self.handler.body.close_loop(f"for roffset in range(0, {rnumel}, RBLOCK):")
        self.handler.forget_loop_values()

    def _loop_head(self) -> list[str]:
        lines = ["rindex = roffset + rbase"]
        return [*lines, "rmask = rindex < rnumel"] if self.domain.needs_rmask else lines

    # -- the head -------------------------------------------------------------------------------

    def _head(self) -> list[str]:
        reduces = self.domain.rnumel is not None
        program = "tl.program_id(0)" + (".to(tl.int64)" if self._is_wide() else "")
        column = "[:, None]" if reduces else ""
        lines = [
            *self._static_extents(),
            f"xoffset = {program} * XBLOCK",
            f"xindex = xoffset + tl.arange(0, XBLOCK){column}",
        ]
        if self.domain.needs_xmask:
            lines.append("xmask = xindex < xnumel")
        return lines + (self._reduction_head() if reduces else [])

    def _reduction_head(self) -> list[str]:
        wide = ".to(tl.int64)" if self._is_wide() else ""
        base = f"tl.arange(0, RBLOCK)[None, :]{wide}"
        if self.domain.looped:
            return [f"rbase = {base}"]
        lines = [f"rindex = {base}"]
        return [*lines, "rmask = rindex < rnumel"] if self.domain.needs_rmask else lines

    def _static_extents(self) -> list[str]:
        lines = []
        if isinstance(self.domain.xnumel, int) and self.domain.needs_xmask:
            lines.append(f"xnumel = {self.domain.xnumel}")
        if isinstance(self.domain.rnumel, int) and self.domain.needs_rmask:
            lines.append(f"rnumel = {self.domain.rnumel}")
        return lines

    def _extents(self) -> list[KernelArgument]:
        """`xnumel` and `rnumel` are parameters where they are not known."""
        extents = {"xnumel": self.domain.xnumel, "rnumel": self.domain.rnumel}
        return [
            KernelArgument(name, name)
            for name, extent in extents.items()
            if isinstance(extent, sympy.Expr)
        ]

    def _is_wide(self) -> bool:
        """Whether addresses need 64 bits: a buffer is large, or may be."""
        sizes = [self.buffers[str(p.value)].fixed_layout().storage_size()
                 for p in self.arguments.pointers()]  # fmt: skip
        numel = product((self.domain.xnumel, self.domain.rnumel or 1))
        return not all(isinstance(n, int) and n + 65536 < INT32_MAX for n in (*sizes, numel))

    def _decorator(self, pointers: Sequence[KernelArgument]) -> str:
        blocks, metadata = self.domain.blocks, {"XBLOCK": self.domain.blocks.x}
        types = [TRITON_POINTERS[self.buffers[str(p.value)].dtype] for p in pointers]
        kind = "pointwise"
        if blocks.r is not None:
            kind = "persistent_reduction" if blocks.persistent else "reduction"
            metadata["RBLOCK"] = blocks.r
        metadata["num_warps"] = blocks.warps
        text = ", ".join(f"{name}={value}" for name, value in metadata.items())
        checks = ", checks_indices=True" if self.handler.checks_indices else ""
        return f'@{kind}(pointers="{" ".join(types)}", {text}{checks})'


def _function(parameters: Sequence[str], blocks: Blocks, lines: Sequence[str]) -> str:
    block_names = ["XBLOCK"] if blocks.r is None else ["XBLOCK", "RBLOCK"]
    everything = [*parameters, *(f"{name}: tl.constexpr" for name in block_names)]
    return f"({', '.join(everything)}):\n" + "".join(f"{INDENT}{line}\n" for line in lines)


def _domain(kernel: KernelNode, itemsize: int) -> KernelDomain:
    xnumel, rnumel = domain(kernel)
    if rnumel is None:
        return KernelDomain(xnumel, None, pointwise_blocks(xnumel, itemsize))
    contiguous = _rows_are_contiguous(bodies(kernel), index_ranges(xnumel, rnumel))
    return KernelDomain(xnumel, rnumel, reduction_blocks(xnumel, rnumel, contiguous))


def _rows_are_contiguous(nodes: Sequence[SchedulerNode], limits: Ranges) -> bool:
    """Whether most reads of the reductions walk memory step by step along the reduction."""
    steps = [
        _step(index, limits)
        for node in nodes
        if node.is_reduction
        for index in _addresses(node, limits)
    ]
    moving = [step for step in steps if step != 0]
    return 2 * moving.count(1) >= len(moving)


def _addresses(node: SchedulerNode, limits: Ranges) -> list[Expr]:
    recorder = RecordingHandler()
    with use_handler(recorder):
        node.run(*split_index(node.ranges, node.reduction_ranges, limits))
    return [index for _, index in recorder.reads]


def _step(index: Expr, limits: Ranges) -> Expr:
    """How far apart in memory two neighbours along the reduction are."""
    index = simplify(index, limits)
    if isinstance(index, int) or not index.has(RINDEX):
        return 0
    step = sympy.expand(index.subs(RINDEX, 1) - index.subs(RINDEX, 0))
    return 1 if step == 1 else step
