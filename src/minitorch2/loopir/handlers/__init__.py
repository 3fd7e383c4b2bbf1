"""The interpreters of loop bodies: each answers every primitive of `minitorch2.loopir.ops`.

    printer.py    text: Python that runs again          recorder.py  the addresses accessed
    counter.py    operations, loads, bytes, flops       dtypes.py    the dtype of every value
    interpreter.py  NumPy arrays: the oracle

Each handler is a subclass of `OpsHandler`.
"""
