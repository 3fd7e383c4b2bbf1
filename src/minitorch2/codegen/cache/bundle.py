"""Entries of the cache as one bytes object, to take to another machine of the same kind.

A bundle holds machine code: load only what you would run. Its entries are checked for damage and
written one by one, each whole or not at all, so that several processes may load a bundle at once.
Entries for another processor or another compiler version do no harm: no key asks for them.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable

from minitorch2.codegen.cache import storage
from minitorch2.errors import ConfigError

_DIGEST = re.compile(r"[0-9a-f]{64}")


def save_bundle(digests: Iterable[str] | None = None) -> bytes:
    """The entries that this process has used, or those named, as a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for digest in storage.USED if digests is None else digests:
            content = storage.read(digest)
            if content is not None and storage.parse(digest, content) is not None:
                archive.writestr(digest, content)
    return buffer.getvalue()


def load_bundle(bundle: bytes) -> int:
    """Put the entries of a bundle into the cache; return how many.

    Raises:
        ConfigError: it is no bundle, or an entry of it is damaged; then nothing is put.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError) as error:
        raise ConfigError(f"no bundle of cache entries: {error}", code="no-bundle") from error
    for digest, content in found.items():
        if not _DIGEST.fullmatch(digest) or storage.parse(digest, content) is None:
            raise ConfigError(f"the bundle's entry {digest!r} is damaged", code="no-bundle")
    for digest, content in found.items():
        storage.install(digest, content)
    return len(found)
