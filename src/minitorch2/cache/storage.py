"""A content-addressed cache of compiled code on disk.

An entry is a file named after the digest of its key:

    entry   ::= SHA-256 of the key's digest and the rest,
                length of the header (4 bytes), header, payload
    header  ::= JSON {"layer", "title", "fields"}

A file is written under another name and then renamed, so a reader sees a whole entry or none. An
entry whose digest is wrong is dropped and made again, as is one under the name of another key.
Entries hold machine code and programs: whoever can write to the folder can run code here. So it is
created for its owner alone, and a folder that another user can write to is neither read nor written
(`trust`). Nothing is ever unpickled. A folder that cannot be written is only read; a folder that
cannot be read is unused. When the folder outgrows option `cache_megabytes`, the files that were
unused for longest are removed.
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
from minitorch2.cache.keys import Key
from minitorch2.cache.trust import is_own_file, make_private, why_unsafe
from minitorch2.errors.cautions import caution_once
from minitorch2.logs import get_logger

_LOGGER = get_logger(__name__)
_DIGEST_BYTES = 32
_BLOCK = 4096
"""Bytes that the smallest file takes on most disks."""
ENTRIES = "kernels"
SUBFOLDERS = (ENTRIES, "graphs", "refused", "triton")
"""What the cache folder holds; nothing else in it is ours."""


@dataclass
class CacheStatistics:
    """The counts of this process's reads of a layer's entries from disk, by outcome."""

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
    """Return the folder of the cache: option `cache_dir`, or the user's cache folder."""
    chosen = config.current().cache_dir
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("minitorch2"))


def path_of(digest: str) -> Path:
    """Return the file of an entry."""
    return folder() / ENTRIES / digest


def load(key: Key) -> bytes | None:
    """Return the payload of `key`, or None if it has no whole entry."""
    statistics = STATISTICS[key.layer]
    if not config.current().cache:
        statistics.bypassed += 1
        return None
    content = read(key.digest)
    if content is None:
        statistics.misses += 1
        return None
    entry = parse(key.digest, content)
    if entry is None:
        statistics.damaged += 1
        _LOGGER.warning("cache entry %s is damaged and is made again", path_of(key.digest))
        return None
    statistics.hits += 1
    USED[key.digest] = None
    _touch(path_of(key.digest))
    return entry.payload


def store(key: Key, payload: bytes) -> None:
    """Keep an entry; a folder that cannot be written is reported once in the log."""
    if not config.current().cache:
        return
    header = {"layer": key.layer, "title": key.title, "fields": key.summary()}
    install(key.digest, compose(key.digest, header, payload))


def install(digest: str, content: bytes) -> None:
    """Put the content of an entry on disk, or in memory if that is impossible."""
    USED[digest] = None
    if not write_file(path_of(digest), content):
        HELD[digest] = content


def read(digest: str) -> bytes | None:
    """Return an entry's content, whole or not; None without a file that this user has written."""
    path = path_of(digest)
    if not is_trusted(path.parent):
        return HELD.get(digest)
    try:
        with open(path, "rb", opener=_without_following) as file:
            if is_own_file(os.fstat(file.fileno())):
                return file.read()
        _LOGGER.warning("another user has written %s: it is not used", path)
    except OSError:
        pass
    return HELD.get(digest)


def _without_following(path: str, flags: int) -> int:
    """Open a file, unless it is a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def compose(digest: str, header: dict[str, Any], payload: bytes) -> bytes:
    """Return the content of an entry, for the digest of its key."""
    text = json.dumps(header).encode()
    rest = len(text).to_bytes(4, "little") + text + payload
    return _seal(digest, rest) + rest


def _seal(digest: str, rest: bytes) -> bytes:
    """Return the digest that binds an entry to its key."""
    return hashlib.sha256(digest.encode() + rest).digest()


def parse(digest: str, content: bytes) -> Entry | None:
    """Parse an entry from a file's content; None if it is damaged, or of another version or key."""
    seal, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if _seal(digest, rest) != seal:
        return None
    end = 4 + int.from_bytes(rest[:4], "little")
    try:
        header = json.loads(rest[4:end])
        return Entry(header["layer"], header["title"], header["fields"], rest[end:])
    except (ValueError, KeyError, TypeError):
        return None


def write_file(path: Path, content: bytes) -> bool:
    """Write a file so that others see all of it or nothing; return whether that was possible.

    It is refused where another user could have put the file there.
    """
    try:
        make_private(path.parent)
        if not is_trusted(path.parent):
            return False
        handle, temporary = tempfile.mkstemp(dir=path.parent)  # readable by its owner only
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o600)  # whatever the umask
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
    except OSError as error:
        _report_unwritable(str(path.parent), str(error))
        return False
    _note_written(len(content))
    return True


def keep_file(path: Path, content: bytes) -> None:
    """Write a file that is named after its content, unless it exists."""
    if not (is_trusted(path.parent) and _touch(path)):
        write_file(path, content)


def _touch(path: Path) -> bool:
    """Note that a file has been used now; return False if it does not exist."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _note_written(size: int) -> None:
    """Enforce the limit: at the first file of this process, and when it may be passed again."""
    global _written
    is_first, _written = _written == 0, _written + on_disk(size)
    limit = config.current().cache_megabytes * 2**20
    if is_first or _written > limit // 16:
        _written = 1
        shrink(limit)


def files() -> Iterator[Path]:
    """Yield every file of the cache."""
    for name in SUBFOLDERS:
        if is_trusted(folder() / name):
            yield from (path for path in (folder() / name).rglob("*") if path.is_file())


def clear() -> int:
    """Remove all files of the cache; return how many there were."""
    found = list(files())
    for path in found:
        path.unlink(missing_ok=True)
    HELD.clear()
    return len(found)


def on_disk(size: int) -> int:
    """Return the bytes that a file of this size takes."""
    return -(-size // _BLOCK) * _BLOCK


def shrink(limit: int) -> int:
    """Remove the files unused for longest until `limit` bytes are left; return their number."""
    sized = []
    for path in files():
        with suppress(OSError):  # another process has removed it
            status = path.stat()
            sized.append((status.st_mtime, on_disk(status.st_size), path))
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


def is_trusted(directory: Path) -> bool:
    """Return whether only this user can put files into a folder of the cache; warn if not.

    Others who can write there could run code in this process.
    """
    reason = why_unsafe(folder()) or why_unsafe(directory)
    if reason is not None:
        caution_once(
            _LOGGER,
            f"the cache of compiled code in {folder()} is not used: {reason}, and who can write "
            "there could run code here. Fix: give the folder to yourself alone (chown, chmod go-w) "
            "or name another one with MINITORCH2_CACHE_DIR",
        )
    return reason is None


@cache
def _report_unwritable(directory: str, reason: str) -> None:
    _LOGGER.warning("cannot write to the cache folder %s: %s", directory, reason)
