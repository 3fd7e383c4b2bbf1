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
from dataclasses import dataclass

from minitorch2.cache import storage
from minitorch2.errors import ConfigError

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CacheInfo:
    """The entries in a bundle.

    Attributes:
        entries: the titles of the entries of each layer (``"graph"``, ``"kernel"``, ...).
    """

    entries: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        counts = (f"{len(titles)} of layer {name}" for name, titles in sorted(self.entries.items()))
        return f"entries: {', '.join(counts) or 'none'}"


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """Save the compiled graphs and kernels that this process has used, for another machine.

    Returns:
        a bundle for `load_cache_artifacts` and what it holds; None if there is nothing, as nothing
        was compiled or the option `cache` is off. A graph with a backward graph is there once that
        has run.
    """
    bundle = save_bundle()
    info = _info_of(_contents_of(bundle))
    return (bundle, info) if info.entries else None


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo:
    """Put a bundle of `save_cache_artifacts` into the cache, before anything is compiled.

    A bundle holds machine code: load only bundles that you would run. Entries for another kind of
    processor or by other versions are not used.

    Raises:
        ConfigError: it is not a bundle, or an entry is damaged; then the cache does not change.
    """
    load_bundle(serialized_artifacts)
    return _info_of(_contents_of(serialized_artifacts))


def _info_of(contents: dict[str, bytes]) -> CacheInfo:
    found = [storage.parse(digest, content) for digest, content in contents.items()]
    titles: dict[str, tuple[str, ...]] = {}
    for entry in filter(None, found):
        titles[entry.layer] = (*titles.get(entry.layer, ()), entry.title)
    return CacheInfo(titles)


def _contents_of(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def save_bundle(digests: Iterable[str] | None = None) -> bytes:
    """Return the entries that this process has used, or those named, as a zip file."""
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
        ConfigError: it is not a bundle, or an entry is damaged; then the cache does not change.
    """
    try:
        found = _contents_of(bundle)
    except (zipfile.BadZipFile, OSError) as error:
        raise ConfigError(f"no bundle of cache entries: {error}", code="no-bundle") from error
    for digest, content in found.items():
        if not _DIGEST.fullmatch(digest) or storage.parse(digest, content) is None:
            raise ConfigError(f"the bundle's entry {digest!r} is damaged", code="no-bundle")
    for digest, content in found.items():
        storage.install(digest, content)
    return len(found)
