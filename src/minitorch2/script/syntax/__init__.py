"""Source text to trees: lexer, parser, and the way through Python's `ast`."""
