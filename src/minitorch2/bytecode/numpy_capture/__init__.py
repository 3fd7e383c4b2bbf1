"""NumPy in compiled functions: an extension of capture, which core does without.

Importing this package registers its rules: builders of trackers in `building.build`, bodies in
`polyfills`, and what the files register themselves. The front door, `api`, imports it.

Read `arrays` first (an array is captured as a tensor on its memory), then `ufuncs`, `functions`,
and `bodies/`, the parts of NumPy that are written in C. `random_numbers` has the generators, and
`building` makes the trackers of real objects.
"""

from minitorch2.bytecode.numpy_capture import functions as functions
from minitorch2.bytecode.numpy_capture.building import register

register()
