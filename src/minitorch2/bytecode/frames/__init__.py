"""The user's frames, before any value is looked at: names, parameters, files, kinds of code.

`names` and `signature` describe a function's variables, and `steps` the segments of generators and
coroutines. `skip_files`, `callers`, `worth` and `torchscript` say which code is captured at all.
`left_to_python` names constructs that end a graph. `compiled_source` compiles text in the user's
name.
"""
