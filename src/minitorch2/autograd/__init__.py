"""Autograd: a graph -> functional aten graphs for forward and backward.

Takes a captured ``GraphModule``; gives a function of the same inputs whose forward and backward are
compiled graphs (PyTorch 2 paper, section 3.9; PyTorch calls this AOTAutograd). Read in this order:
``schemas`` (aliasing as operators declare it), ``functionalize`` (writes told without writes),
``windows`` and ``layouts`` (memory as eager's), ``trace`` (recording), ``decompositions/``,
``epilogue`` and ``joint`` (the joint graph), ``masks``; ``partition`` with ``min_cut``,
``max_flow``, ``recompute`` and ``drawing`` (what is saved for backward); ``plan``, ``runtime``,
``second_derivatives``, ``lift``, ``compiled_program``, ``frozen`` and ``aot`` (running it).
``python -m minitorch2.autograd`` prints a small example.
"""

from minitorch2.autograd.aot import Compiler, aot_autograd
from minitorch2.autograd.decompositions import DECOMPOSITIONS, register_decomposition
from minitorch2.autograd.joint import TracedProgram, trace_program
from minitorch2.autograd.partition import Partition, default_partition, min_cut_partition

__all__ = [
    "DECOMPOSITIONS",
    "Compiler",
    "Partition",
    "TracedProgram",
    "aot_autograd",
    "default_partition",
    "min_cut_partition",
    "register_decomposition",
    "trace_program",
]
