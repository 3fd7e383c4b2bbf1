"""The ground floor: the language that all layers share.

Takes nothing from other layers; gives graphs (``Graph``, ``Node``, ``GraphModule``), their printer,
verifier, interpreter and passes, fake tensors and symbolic sizes. Read in this order:

    containers, node, graph, names, printer, tabular, graph_module, verify,
    interpreter                                                                the language
    higher_order, composite, transforms                        operators whose arguments are graphs
    kernel_launch, written_pointers, functional_call           the user's own kernels and operators
    symbols/, dispatch_mode, fake_tensor, fake_kernels, fake_pointwise,
    fake_reductions, known_scalars                                             values without data
    data_dependent, symbol_nodes, runtime_checks, unbacked_views               what data will tell
    canonical                                                  one text and hash for equal graphs
    random_operators                                           draws in the order of memory
    effects, rewriting, passes/, pipeline                                      passes, one a file
    symbolic_trace, patterns/                                                  rules, as functions

``python -m minitorch2.graph`` prints a small example.
"""

from minitorch2.graph.canonical import canonical_text, graph_hash
from minitorch2.graph.fake_tensor import (
    DataDependentError,
    FakeConverter,
    FakeMode,
    FakeTensor,
    same_storage,
    to_fake,
)
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.node import Node, SourceLine, map_nodes
from minitorch2.graph.symbols import ShapeEnv, expr_of, free_symbols
