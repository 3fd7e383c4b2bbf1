"""The user's own Triton kernels in compiled functions: an extension, which core does without.

Importing this package registers its `building`. The front door, `api`, imports it. Without it, a
graph breaks where a kernel is launched. Reading order: `kernel`, `operator`, `building`.
"""

from minitorch2.bytecode.kernel_capture import building as building
