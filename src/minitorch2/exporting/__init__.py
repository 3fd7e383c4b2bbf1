"""A program as a file: `export` captures a call as one graph; `save` and `package` write it.

Takes a function or module and an example call; gives a graph of aten operators with a signature. It
also gives a file that needs neither the program's source nor a pickle, and a file of machine code.

    program   ::= graph, Signature, tensors             see ``signature.py``
    file      ::= manifest, entries, digests            see ``container.py``
    package   ::= wrapper, image for each kind of machine, Signature, tensors

Read `signature` first (what a program is, besides its graph), then `program` (`export`). From a
call to a graph lead `dimensions` (which sizes vary), `capturing`, `lowering`, `input_sizes` and
`explicit_sizes`. `torch_programs` goes to and from `torch.export`. `checking` and `running` are
calls of a program. Files are in `container`, `as_json`, `program_file` and `loading`. Packages with
machine code are made by `packaging` and `object_code`, and loaded by `loaded_package`, which
imports no compiler.
"""
