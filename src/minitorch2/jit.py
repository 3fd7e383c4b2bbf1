"""TorchScript under torch.jit's names: `minitorch2.jit.script`, `trace`, `save`, `load` and more.

`minitorch2.script` holds the code. Here are the names that programs use.
"""

from typing import Final

from minitorch2.script import api
from minitorch2.script.api import *  # noqa: F403 - all of its names
from minitorch2.script.modules.type_questions import isinstance

__all__ = ["Final", "isinstance", *api.__all__]
