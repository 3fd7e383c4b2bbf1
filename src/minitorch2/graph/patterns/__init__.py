"""Rewriting by rules: find one side of a law in a graph, and put the other in its place.

Read ``rule`` (what a rule is), ``operation`` (when two nodes compute the same), ``matcher`` and
``apply``; then the families: ``algebra``, ``attention``, ``bags``, ``batch_norm``. A family is
applied by the pass of its name (PyTorch 2 paper, section 6.4: peephole optimizations before
lowering).
"""

from minitorch2.graph.patterns import algebra, attention, bags, batch_norm
from minitorch2.graph.patterns.apply import apply_rules
from minitorch2.graph.patterns.matcher import Match, match
from minitorch2.graph.patterns.rule import FAMILIES, Constant, Rule, make_rule, rule
