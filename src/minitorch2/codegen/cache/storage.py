"""A content-addressed cache of compiled code on disk.

An entry is a file named after the digest of its key:

    entry   ::= SHA-256 of the rest, length of the header (4 bytes), header, payload
    header  ::= JSON {"layer", "title", "fields"}

Files are written beside and renamed into place, so a reader sees a whole entry or none; one whose
digest is wrong is dropped and made again. Entries hold machine code and bitcode: whoever can write
to the folder can run code here, so it is created for its owner only, and a folder that others can
write to is reported. Nothing is ever unpickled. A folder that cannot be written is read; one that
cannot be read is unused. When the folder outgrows option `cache_megabytes`, entries that have not
been used for longest go.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from minitorch2 import config
from minitorch2.codegen.cache.keys import Key
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
_DIGEST_BYTES = 32
_SHARED = 0o022
ENTRIES = "kernels"
SUBFOLDERS = (ENTRIES, "graphs", "refused", "triton")
"""What the cache folder holds; nothing else in it is ours."""


@dataclass
class CacheStatistics:
    """How often this process asked the disk for entries of a layer, and what it got."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    bypassed: int = 0


@dataclass(frozen=True)
class Entry:
    """An entry that is whole."""

    layer: str
    title: str
    fields: dict[str, str]
    payload: bytes


STATISTICS: defaultdict[str, CacheStatistics] = defaultdict(CacheStatistics)
"""By layer."""
USED: dict[str, None] = {}
"""The digests of the entries that this process has read or written, in order."""
HELD: dict[str, bytes] = {}
"""Entries of this process that the disk does not have."""
_written = 0


def folder() -> Path:
    """Where entries are kept: option `cache_dir`, or the user's cache folder."""
    chosen = config.current().cache_dir
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("minitorch2"))


def path_of(digest: str) -> Path:
    """The file of an entry."""
    return folder() / ENTRIES / digest


def load(key: Key) -> bytes | None:
    """The payload of `key`, or None if there is no whole entry of it."""
    statistics = STATISTICS[key.layer]
    if not config.current().cache:
        statistics.bypassed += 1
        return None
    content = read(key.digest)
    if content is None:
        statistics.misses += 1
        return None
    entry = parse(content)
    if entry is None:
        statistics.damaged += 1
        _LOGGER.warning("cache entry %s is damaged and is made again", path_of(key.digest))
        return None
    statistics.hits += 1
    USED[key.digest] = None
    with suppress(OSError):
        os.utime(path_of(key.digest))  # it is young again
    return entry.payload


def store(key: Key, payload: bytes) -> None:
    """Keep an entry; a folder that cannot be written is reported once in the log."""
    if not config.current().cache:
        return
    header = {"layer": key.layer, "title": key.title, "fields": key.summary()}
    install(key.digest, compose(header, payload))


def install(digest: str, content: bytes) -> None:
    """Put the content of an entry on disk, or in memory if that is impossible."""
    global _written
    _report_shared(folder())
    USED[digest] = None
    if not write_file(path_of(digest), content):
        HELD[digest] = content
        return
    is_first, _written = _written == 0, _written + len(content)
    limit = config.current().cache_megabytes * 2**20
    if is_first or _written > limit // 16:
        _written = 1
        shrink(limit)


def read(digest: str) -> bytes | None:
    """The content of an entry, whole or not."""
    try:
        return path_of(digest).read_bytes()
    except OSError:
        return HELD.get(digest)


def compose(header: dict[str, Any], payload: bytes) -> bytes:
    """The content of an entry."""
    text = json.dumps(header).encode()
    rest = len(text).to_bytes(4, "little") + text + payload
    return hashlib.sha256(rest).digest() + rest


def parse(content: bytes) -> Entry | None:
    """The entry in a file's content, or None if it is damaged or of another version."""
    digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    end = 4 + int.from_bytes(rest[:4], "little")
    try:
        header = json.loads(rest[4:end])
        return Entry(header["layer"], header["title"], header["fields"], rest[end:])
    except (ValueError, KeyError, TypeError):
        return None


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


def files() -> Iterator[Path]:
    """Every file of the cache."""
    for name in SUBFOLDERS:
        yield from (path for path in folder().glob(f"{name}/*") if path.is_file())


def clear() -> int:
    """Remove all files of the cache; return how many there were."""
    found = list(files())
    for path in found:
        path.unlink(missing_ok=True)
    HELD.clear()
    return len(found)


def shrink(limit: int) -> int:
    """Remove what has not been used for longest until `limit` bytes are kept; how many went."""
    sized = []
    for path in files():
        with suppress(OSError):  # another process has removed it
            status = path.stat()
            sized.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in sized)
    removed = 0
    for _, size, path in sorted(sized):
        if total <= limit:
            break
        with suppress(OSError):
            path.unlink(missing_ok=True)
            removed += 1
        total -= size
    return removed


@cache
def _report_unwritable(directory: str, reason: str) -> None:
    _LOGGER.warning("cannot write to the cache folder %s: %s", directory, reason)


@cache
def _report_shared(directory: Path) -> None:
    """Others who can write here can run code in this process."""
    with suppress(OSError):
        status = directory.stat()
        is_others = hasattr(os, "geteuid") and status.st_uid not in (os.geteuid(), 0)
        if is_others or (os.name == "posix" and status.st_mode & _SHARED):
            _LOGGER.warning("other users can write to the cache folder %s", directory)
