"""The basement: facts and tools that all floors use. It imports no other floor.

It takes text, names and locks, and gives them the form that the floors share. Read each file alone.
"""
