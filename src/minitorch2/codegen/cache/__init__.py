"""The cache of compiled code on disk: `keys`, `trust` (who can write to a folder), `storage`,
`report` (why a key missed), `bundle`."""

from minitorch2.codegen.cache.keys import Key, digest_of, key_of
from minitorch2.codegen.cache.storage import (
    STATISTICS,
    CacheStatistics,
    clear,
    folder,
    keep_file,
    load,
    store,
    write_file,
)

__all__ = [
    "STATISTICS",
    "CacheStatistics",
    "Key",
    "clear",
    "digest_of",
    "folder",
    "keep_file",
    "key_of",
    "load",
    "store",
    "write_file",
]
