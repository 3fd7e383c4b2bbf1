"""The text of generated code is in `linecache` while the code lives."""

import gc
import linecache

from minitorch2.foundation.source_lines import keep_lines


class Owner:
    """What a file's text belongs to."""


def test_an_owner_may_die_while_linecache_walks_through_its_files(monkeypatch):
    """Regression: a debugger that started just then raised KeyError."""
    owners = [Owner(), Owner()]
    for number, owner in enumerate(owners):
        keep_lines(f"<test {number}>", "x = 1\n", owner)
    del owner

    class Cache(dict):
        def keys(self):
            found = list(super().keys())
            owners.clear()
            gc.collect()
            return found

    monkeypatch.setattr(linecache, "cache", Cache(linecache.cache))
    linecache.checkcache()
    assert not owners and "<test 0>" in linecache.cache
    last = Owner()
    keep_lines("<test 2>", "x = 1\n", last)
    del last
    gc.collect()
    assert not {f"<test {number}>" for number in range(3)} & set(linecache.cache)
