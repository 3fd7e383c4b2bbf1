"""Trust in folders: nothing is read or written in a folder to which another user can write.

    safe folder ::= its owner is this user or root, nobody else may write to it
    safe path   ::= safe folder, behind folders that are safe or *sticky* (as /tmp), and links that
                    this user or root has made

A folder is sticky if users who may write to it cannot remove or rename the files of others. A
user's own group without other members counts as the user. On a system without modes (Windows), the
user's folders are taken to be safe.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

try:
    import grp
    import pwd
except ImportError:  # Windows
    grp = pwd = None  # type: ignore[assignment]

PRIVATE = 0o700
_IS_POSIX = os.name == "posix"
_MOST_LINKS = 40


def make_private(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for their owner alone.

    The umask makes no difference.

    Raises:
        OSError: one of them cannot be created.
    """
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        try:
            part.mkdir(PRIVATE)
        except FileExistsError:  # another process was faster
            continue
        part.chmod(PRIVATE)


def why_unsafe(folder: Path) -> str | None:
    """Return why another user could put files into a folder; None if none can, or it is missing."""
    if not _IS_POSIX:
        return None
    found: list[tuple[str, os.stat_result]] = []
    try:
        for path, status in _steps(os.path.abspath(folder)):
            if not _is_own(status):
                return f"{path} belongs to user {status.st_uid}"
            if not stat.S_ISLNK(status.st_mode):
                found.append((path, status))
    except (FileNotFoundError, NotADirectoryError):
        return _first_open(found)
    except OSError as error:
        return str(error)
    return _first_open(found[:-1]) or _open(*found[-1])


def _first_open(parents: list[tuple[str, os.stat_result]]) -> str | None:
    """Return the first folder whose entries others can replace."""
    closed = ((path, status) for path, status in parents if not status.st_mode & stat.S_ISVTX)
    return next((why for path, status in closed if (why := _open(path, status))), None)


def _open(path: str, status: os.stat_result) -> str | None:
    return f"other users can write to {path}" if _others_can_write(status) else None


def is_own_file(status: os.stat_result) -> bool:
    """Return whether an opened file is a plain one that only this user or root can have written."""
    if not _IS_POSIX:
        return True
    return stat.S_ISREG(status.st_mode) and _is_own(status) and not _others_can_write(status)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _others_can_write(status: os.stat_result) -> bool:
    by_group = status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid)
    return bool(status.st_mode & stat.S_IWOTH or by_group)


@cache
def _is_own_group(group: int) -> bool:
    """Return whether a group is the user's own and has no other member."""
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:  # as in containers: nobody has a name
        return False
    is_named_so = members.gr_name == user.pw_name and group == user.pw_gid
    return is_named_so and not {*members.gr_mem} - {user.pw_name}


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each folder and link that the system passes on its way to a path."""
    parts, at, links = path.strip(os.sep).split(os.sep), os.sep, 0
    yield at, os.lstat(at)
    while parts:
        step = os.path.normpath(os.path.join(at, parts.pop(0)))
        status = os.lstat(step)
        yield step, status
        if not stat.S_ISLNK(status.st_mode):
            at = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"{path} goes through more than {_MOST_LINKS} links")
        target = os.path.normpath(os.path.join(at, os.readlink(step)))
        parts, at = [*target.strip(os.sep).split(os.sep), *parts], os.sep
