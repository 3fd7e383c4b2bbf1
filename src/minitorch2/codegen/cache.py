"""A content-addressed cache of compiled code on disk.

A key is the SHA-256 of everything an entry depends on; an entry is a file named after its key.
Files are written beside and renamed into place, so a reader sees a whole entry or none, and each
begins with the SHA-256 of its content, so a damaged one is dropped and made again. Entries hold
machine code and bitcode: whoever can write to the folder can run code here, so it is created for
its owner only. Nothing is ever unpickled. A folder that cannot be written is read; one that cannot
be read is unused.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

from minitorch2 import config
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
_DIGEST_BYTES = 32


@dataclass
class CacheStatistics:
    """How often this process asked the disk, and what it got."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0


STATISTICS = CacheStatistics()


def folder() -> Path:
    """Where entries are kept: option `cache_dir`, or the user's cache folder."""
    chosen = config.current().cache_dir
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("minitorch2"))


def key_of(*parts: str) -> str:
    """The key of an entry that depends on these texts, in this order."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def load(key: str) -> bytes | None:
    """The entry of `key`, or None if there is none that is whole."""
    if not config.current().cache:
        return None
    try:
        content = _path(key).read_bytes()
    except OSError:
        STATISTICS.misses += 1
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != digest:
        STATISTICS.damaged += 1
        _LOGGER.warning("cache entry %s is damaged and is made again", _path(key))
        return None
    STATISTICS.hits += 1
    return payload


def store(key: str, payload: bytes) -> None:
    """Keep an entry; a folder that cannot be written is reported once in the log."""
    if config.current().cache:
        write_file(_path(key), hashlib.sha256(payload).digest() + payload)


def write_file(path: Path, content: bytes) -> bool:
    """Write a file so that others see all of it or nothing; False if that is impossible here."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)  # readable by its owner only
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        _report_unwritable(str(path.parent), str(error))
        return False
    return True


def clear() -> int:
    """Remove all entries; return how many there were."""
    entries = [path for path in folder().glob("*/*") if path.is_file()]
    for path in entries:
        path.unlink(missing_ok=True)
    return len(entries)


def _path(key: str) -> Path:
    return folder() / "kernels" / key


@cache
def _report_unwritable(directory: str, reason: str) -> None:
    _LOGGER.warning("cannot write to the cache folder %s: %s", directory, reason)
