"""Compiled functions: look for an entry whose guards hold, run it, or compile a new one.

A `Region` is one call of `compile`: a backend and options. It has one `CodeCache` for each code
object that it met. A frame reaches its cache in one of three ways:

- through the *dispatcher* of a compiled function: a generated function with the parameters of the
  user's own, which tries the guards of its entries in order, without any hook;
- through the dispatcher of a continuation, called by residual code;
- through the frame hook, for functions called where a graph is broken.

`definition` notices that a compiled function got new code or defaults. One lock for compiling, none
for running. PyTorch 2 paper, section 3.2.
"""

from __future__ import annotations

from minitorch2.bytecode.dispatch.dispatcher import Dispatcher, dispatcher_of, original_of
from minitorch2.bytecode.dispatch.region import Region, reset_regions, take_stance
from minitorch2.bytecode.dispatch.stance import Stance
