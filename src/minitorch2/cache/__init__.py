"""The cache of compiled code on disk.

Takes a key and bytes. Gives the bytes back, in this process or another one. Read `keys`, `trust`
(who can write to a folder), `storage` and `bundle`."""

from minitorch2.cache.keys import Key, digest_of, digest_of_sources, key_of
from minitorch2.cache.storage import (
    STATISTICS,
    CacheStatistics,
    clear,
    folder,
    keep_file,
    load,
    store,
    write_file,
)
