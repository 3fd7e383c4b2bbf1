"""Trackers: what is known of each Python value while a frame is evaluated; one kind a file.

`base` says what every tracker can do, and refuses it; `python_values` and `torch_values` hold the
kinds; `modeled`, `descriptors`, `get_attr` and `rules` are what several kinds share. A new kind of
value is a new file in one of the two folders, and a line in `bytecode.building.build`.
"""
