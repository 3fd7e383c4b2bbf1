"""Triton's interpreter, which runs kernels in Python."""

from triton.runtime import interpreter

TensorHandle = interpreter.TensorHandle
