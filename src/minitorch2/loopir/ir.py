"""The intermediate representation of loops, in one grammar.

    graph   ::= LoweredGraph(inputs, buffers, outputs)                        lowered_graph.py
    buffer  ::= InputBuffer | ConstantBuffer | ComputedBuffer(name, layout, loops)
             |  ExternKernel(name, layout, target, args, kwargs) | MultiOutput      buffers.py
    loops   ::= Pointwise(device, dtype, ranges, inner_fn)
             |  Reduction(..., reduction_ranges, kind, src_dtype)                   loops.py
    layout  ::= FixedLayout(device, dtype, size, stride, offset)
             |  FlexibleLayout(device, dtype, size)                                layout.py
    tensor  ::= TensorBox(StorageBox(loops | buffer) | View(data, size, reindex))   boxes.py
    inner_fn: a Python function of SymPy indices that calls ops.*                    ops.py
    expr    ::= int | SymPy expression with FloorDiv, ModularIndexing          expressions.py

This module only gathers the names. PyTorch keeps them in `torch/_inductor/ir.py`.
"""

from minitorch2.loopir.boxes import StorageBox, TensorBox, View
from minitorch2.loopir.buffers import (
    Buffer,
    BufferView,
    ComputedBuffer,
    ConstantBuffer,
    ExternKernel,
    InputBuffer,
    MultiOutput,
)
from minitorch2.loopir.layout import FixedLayout, FlexibleLayout, Layout
from minitorch2.loopir.loops import Loops, Pointwise, Reduction
