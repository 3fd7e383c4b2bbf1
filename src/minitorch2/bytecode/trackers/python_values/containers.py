"""All trackers of built-in containers, by one name."""

from minitorch2.bytecode.trackers.python_values.mapping import DictVariable
from minitorch2.bytecode.trackers.python_values.sequence import (
    ListVariable,
    SliceVariable,
    TupleVariable,
)
from minitorch2.bytecode.trackers.python_values.set import SetVariable

__all__ = ["DictVariable", "ListVariable", "SetVariable", "SliceVariable", "TupleVariable"]
