"""Triton's compiler, without the front end that looks at every argument, and its interpreter."""

from triton.backends import compiler as backend
from triton.compiler import compiler
from triton.runtime import interpreter

GPUTarget = backend.GPUTarget
ASTSource = compiler.ASTSource
TensorHandle = interpreter.TensorHandle
