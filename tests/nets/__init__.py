"""Nets: random programs against eager, for as long as one likes. `python -m tests.nets` casts them.

`registry` lists them, `__main__` runs them, `report` is the pytest plugin that counts what a net
has tried and caught, `caches` is a net of its own.
"""
