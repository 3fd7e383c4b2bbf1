"""Autograd: a graph -> functional aten graphs for forward and backward.

The package takes a captured ``GraphModule``. It gives a function of the same inputs whose forward
and backward are compiled graphs. PyTorch calls this AOTAutograd (PyTorch 2 paper, section 3.9).

Read ``schemas`` (aliasing as operators declare it), ``functionalize`` (writes become new values),
``windows`` and ``layouts`` (memory as eager's). Then comes the joint graph: ``trace`` (recording),
``decompositions/``, ``epilogue``, ``joint`` and ``masks``. The modules ``partition``, ``min_cut``,
``max_flow``, ``recompute`` and ``drawing`` choose the values saved for backward. The last ones run
the program: ``plan``, ``runtime``, ``second_derivatives``, ``lift``, ``compiled_program``,
``frozen`` and ``aot``. ``python -m minitorch2.autograd`` prints a small example.
"""

from minitorch2.autograd.aot import Compiler, aot_autograd
from minitorch2.autograd.decompositions import DECOMPOSITIONS, register_decomposition
from minitorch2.autograd.joint import TracedProgram, trace_program
from minitorch2.autograd.partition import Partition, default_partition, min_cut_partition
