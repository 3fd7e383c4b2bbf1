"""Random Python functions on tensors: a Hypothesis strategy to point at any PyTorch compiler.

    @given(programs())
    def test_my_compiler(program):
        program.check(my_compile)

A program is a module with globals, functions, classes and an `nn.Module` (`prelude.py.txt`), and a
function ``f(x, y, n, items, table, box)`` that mixes tensor operations with plain Python. Its
statements and expressions come from a grammar that is data (`grammar`). Every program ends. It is
compared with plain CPython by all that a caller can see: value, printed text, exception, arguments
and globals afterwards, and sharing of objects among these.
"""

from minitorch2.testing.programs.program import Program, programs

__all__ = ["Program", "programs"]
