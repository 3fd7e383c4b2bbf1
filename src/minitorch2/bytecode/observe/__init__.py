"""What the user can see of capture after it happened.

`costs` (operators that each graph break costs), `listing` (the user's source, line by line:
captured or not), `report_html` (both as a page), `notebook` (reports in a notebook), `recompiles`
(why entries were compiled again), `replay` (a captured frame as a folder, for a report of a bug).
"""
