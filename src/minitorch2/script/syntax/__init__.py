"""Source text to trees: lexer, parser, and the way through Python's `ast`.

Takes the text of a function, a class or an expression; gives `Tree` objects whose ranges point at
the user's lines. `parser` needs no Python, and `from_ast` takes what `ast` found: both give equal
trees. Read `source`, `tree`, `lexer`, `parser`, `from_ast`.
"""
