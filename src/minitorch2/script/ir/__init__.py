"""Types and graphs: values, nodes, blocks, their canonical text and their verifier.

All other rooms take and give these. Read `types`, `graph`, then `print_ir` and `parse_ir` (text
both ways) and `verify`.
"""

from minitorch2.script.ir import print_ir as print_ir  # every graph prints itself
