"""The marks that a program carries for its compiler.

It takes functions (`controls`, `wrappers`) and tensors (`dimensions`) and gives them marked. Read
`controls` first.
"""
