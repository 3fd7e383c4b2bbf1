"""A graph together with the tensors, submodules and callables that it names: a callable.

PyTorch's counterpart is ``torch.fx.GraphModule``; ours is not an ``nn.Module``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import MethodType
from typing import Any

from minitorch2.foundation.source_lines import keep_lines
from minitorch2.graph.graph import Graph
from minitorch2.graph.printer import PrintedCode, print_python
from minitorch2.graph.release import compile_releasing

_FILE_NUMBERS = count()


class GraphModule:
    """The printed code of ``graph`` as a callable; ``attributes`` holds the values that get_attr
    and call_module name.

    The code is compiled on the first call. After editing the graph call :meth:`recompile`.
    Picklable where its attributes are.

    >>> import operator
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output((graph.call_function(operator.mul, (x, 2)),))
    >>> GraphModule(graph)(21)
    (42,)
    """

    def __init__(self, graph: Graph, attributes: dict[str, object] | None = None) -> None:
        self.graph = graph
        self.attributes: dict[str, object] = dict(attributes or {})
        self._printed: PrintedCode | None = None
        self._forward: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self._forward is None:
            self._forward = MethodType(self._compile(), self)
        return self._forward(*inputs)

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__.get("attributes", {})
        if name in attributes:
            return attributes[name]
        raise AttributeError(f"GraphModule has no attribute {name!r}")

    def __getstate__(self) -> dict[str, object]:
        return {"graph": self.graph, "attributes": self.attributes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["graph"], state["attributes"])  # type: ignore[misc]

    @property
    def code(self) -> str:
        """The Python text that a call runs: imports, then ``def forward(self, ...)``."""
        return self._print().text

    def print_tabular(self) -> None:
        """Print the graph as a table: opcode, name, target, args."""
        self.graph.print_tabular()

    def run_by(self, call: Callable[[list[Any]], Any]) -> None:
        """Let a call from now on pass the list of its inputs to a compiled form of the graph."""
        self._forward = lambda *inputs: call([*inputs])

    def recompile(self) -> None:
        """Forget the compiled code; the next call prints and compiles the edited graph."""
        self._printed = self._forward = None

    def lookup(self, path: str) -> Any:
        """Return the attribute with this dotted path: one of ``attributes``, or a member of one."""
        if path in self.attributes:
            return self.attributes[path]
        head, *rest = path.split(".")
        value = self.attributes[head]
        for part in rest:
            value = getattr(value, part)
        return value

    def copy(self) -> GraphModule:
        """Same attributes, an independent copy of the graph."""
        return GraphModule(self.graph.copy(), self.attributes)

    def _print(self) -> PrintedCode:
        if self._printed is None:
            self._printed = print_python(self.graph, {*dir(GraphModule), *vars(self)})
        return self._printed

    def _compile(self) -> Callable[..., Any]:
        printed = self._print()
        file = f"<minitorch2 graph {next(_FILE_NUMBERS)}>"
        namespace = dict(printed.names)
        exec(compile_releasing(printed.text, file), namespace)
        forward: Callable[..., Any] = namespace["forward"]
        keep_lines(file, printed.text, forward)
        return forward
