"""CPython from inside: its C functions, its frames, and the formats of its code objects."""
