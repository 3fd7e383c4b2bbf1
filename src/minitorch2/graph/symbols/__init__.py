"""Symbolic sizes: one compilation for many sizes (PyTorch 2 paper, section 5).

A size is an integer or an expression over *symbols*::

    Expr      ::= int | symbol | Expr + Expr | Expr * Expr | Expr // Expr | Expr % Expr | ...
    Condition ::= bool | Expr < Expr | Expr == Expr | ... | all of them | any of them
    symbol    ::= s0, s1, ...   sizes of inputs: at least 2, with a hint and a source
                | f0, f1, ...   floats of inputs
                | u0, u1, ...   sizes that only data will tell: without a hint (section 5.3)

Read ``expression`` and ``division`` (the algebra) first. Then read ``conditions``, ``ranges`` and
``knowledge`` (facts that decide conditions), ``shape_env`` (hints and guards), and ``sym_node``
(our expressions inside PyTorch's kernels). The last ones are ``unbacked`` (sizes known at run time
only), ``bindings`` (the values of symbols in compiled code) and ``report``.
"""

from minitorch2.graph.symbols.bindings import bindings, solve_for
from minitorch2.graph.symbols.expression import Expr, expr_of, free_symbols, same_sizes, size_symbol
from minitorch2.graph.symbols.shape_env import (
    ShapeEnv,
    ShapeGuard,
    SizeSymbol,
    numbers_of,
    simplified,
)
from minitorch2.graph.symbols.sym_node import SymNode
from minitorch2.graph.symbols.text import print_condition, print_expr, print_naming
