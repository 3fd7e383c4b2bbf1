"""Trackers: the symbolic values of a frame that is evaluated; one kind a file.

`base` defines the operations of every tracker, and refuses them. `python_values` and `torch_values`
hold the kinds. Several kinds share `modeled`, `descriptors`, `get_attr` and `rules`. A new kind of
value is a new file in one of the two folders, and a line in `bytecode.building.build`.
"""
