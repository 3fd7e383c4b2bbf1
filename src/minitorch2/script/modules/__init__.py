"""Modules and functions that a user holds.

Takes an `nn.Module` or a function; gives a scripted one whose methods run graphs. Read `function`,
`module` (the type that modules of one kind share), `from_nn_module`, then `script_module`.
"""
