"""A call as a folder: enough to capture it again elsewhere, for a report of a bug.

    folder ::= program.py ...   the text of the functions and classes that the call needs, a file
                                for each module that they come from
               tensors.pt       tensors, loadable with `weights_only=True`
               call.json        the function, its arguments, and what the program's names stand for

Code is kept as text and data as data: nothing is pickled. Replaying runs the text, so read a folder
from others before replaying it. ``texts`` finds the text of Python definitions, ``writing`` and
``reading`` are the two directions, and ``plain`` is the form of values.
"""

from minitorch2.bytecode.observe.replay.plain import ReplayError
from minitorch2.bytecode.observe.replay.reading import SavedCall, load_call
from minitorch2.bytecode.observe.replay.writing import save_call
