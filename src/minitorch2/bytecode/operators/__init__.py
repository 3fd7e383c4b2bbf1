"""Operators that only captured graphs have, and the call of an operator on fake tensors.

`fake_call` runs one operation while capturing. A node may stand for a checkpoint (`checkpoint`) or
a custom function with its own gradient (`custom_function`). It may stand for a hook on a gradient
(`gradient_hook`), a warning (`warned`), or a part that the program repeats (`blocks`).
`plain_tensors` takes the class from tensors of a subclass.
"""
