"""Types and graphs: values, nodes, blocks, their canonical text and their verifier."""

from minitorch2.script.ir import print_ir as print_ir  # every graph prints itself
