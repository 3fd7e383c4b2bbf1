"""All trackers of built-in containers, by one name."""

from minitorch2.bytecode.trackers.mapping import DictVariable
from minitorch2.bytecode.trackers.sequence import ListVariable, SliceVariable, TupleVariable
from minitorch2.bytecode.trackers.set import SetVariable

__all__ = ["DictVariable", "ListVariable", "SetVariable", "SliceVariable", "TupleVariable"]
