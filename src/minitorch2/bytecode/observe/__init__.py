"""Reports on capture for the user, after it happened.

`costs` counts operators that each graph break costs. `listing` shows the user's source, line by
line, captured or not. `recompiles` says why entries were compiled again. `replay` saves a captured
frame as a folder, for a report of a bug.
"""
