"""From real values to trackers: `build` for values from outside, `from_graph` for results."""

from minitorch2.bytecode.building.build import build
from minitorch2.bytecode.building.tensors import from_graph
