"""The interface that `import minitorch2` offers, but for the modules that users import by name.

It takes a program of the user and gives a compiled one, or a report. Read `compiler` first
(`compile`, `reset`, backends), then `reports` (`explain`, `recompiles`, `shapes`, `replay`),
`disabled` and `stances`. `compile_options` reads the arguments of `compile`.
"""
