"""Triton's compiler, without the front end that looks at every argument of every call."""

from triton.backends import compiler as backend
from triton.compiler import compiler

GPUTarget = backend.GPUTarget
ASTSource = compiler.ASTSource
