"""The stages that a frame reports to `stages` while it is compiled, each when it happens.

First `source.py`, `bytecode_in.txt`, `captured_graph` (also as Python) and perhaps `graph_break`;
then the backend reports its own stages; then `guards.py`, `residual.py` and `bytecode_out.txt`.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import textwrap
import tokenize
from types import CodeType

from minitorch2 import stages
from minitorch2.bytecode.compiling.compiled_frame import CompiledFrame, GraphBreak
from minitorch2.graph.graph_module import GraphModule


def report_frame(code: CodeType) -> None:
    """Report the frame that is about to be captured: the user's text and its bytecode."""
    if stages.wanted("source.py"):
        stages.record("source.py", source_text(code), subject=code)
    if stages.wanted("bytecode_in.txt"):
        stages.record("bytecode_in.txt", bytecode_text(code), subject=code)


def report_capture(module: GraphModule | None, graph_break: GraphBreak | None) -> None:
    """Report the captured graph, if there is one, and the graph break, if there is one."""
    if module is not None and stages.wanted("captured_graph"):
        stages.record("captured_graph", module.graph.tabular())
    if module is not None and stages.wanted("captured_graph.py"):
        stages.record("captured_graph.py", module.code, subject=module)
    if graph_break is not None:
        stages.record("graph_break", str(graph_break), subject=graph_break)


def report_compiled(compiled: CompiledFrame) -> None:
    """Report the code that takes the frame's place, as Python and as bytecode, and the counts."""
    stages.count("frames")
    stages.count("graphs", compiled.graph is not None)
    stages.count("graph_breaks", compiled.graph_break is not None)
    stages.record("residual.py", compiled.source, subject=compiled)
    if stages.wanted("bytecode_out.txt"):
        stages.record("bytecode_out.txt", bytecode_text(compiled.residual))


def source_text(code: CodeType) -> str:
    """Return the text of a function, from the file it was read from; empty if that is unknown."""
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    try:
        return textwrap.dedent("".join(inspect.getblock(lines)))
    except (tokenize.TokenError, SyntaxError):  # a lambda amid an expression
        return "".join(lines[:1])


def bytecode_text(code: CodeType) -> str:
    """Return the instructions of a code object."""
    return dis.Bytecode(code).dis()
