"""Reports on the cache: its entries, and the reason why a key was not found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from minitorch2 import config
from minitorch2.cache import storage
from minitorch2.cache.keys import Key
from minitorch2.cache.storage import Entry
from minitorch2.cache.trust import why_unsafe


@dataclass(frozen=True)
class Found:
    """An entry on disk, and when it was last used (seconds since 1970)."""

    digest: str
    entry: Entry
    used: float


@dataclass(frozen=True)
class Explanation:
    """The reason why there was no entry: the nearest one, and the fields in which it differs."""

    nearest: Found | None
    differing: tuple[str, ...]

    def __str__(self) -> str:
        if self.nearest is None:
            return "there was no entry of its kind"
        found = self.nearest
        return f"{found.digest[:12]} {found.entry.title} differs in {', '.join(self.differing)}"


def entries() -> list[Found]:
    """Return every whole entry, the last used first."""
    found = []
    for path in (storage.folder() / storage.ENTRIES).glob("*"):
        content = storage.read(path.name)
        entry = None if content is None else storage.parse(path.name, content)
        with suppress(OSError):
            if entry is not None:
                found.append(Found(path.name, entry, path.stat().st_mtime))
    return sorted(found, key=lambda each: -each.used)


def explain(key: Key) -> Explanation:
    """Why `key` has no entry. (If it has one, nothing differs.)"""
    return nearest(key.layer, key.title, key.summary(), entries())


def nearest(
    layer: str, title: str, fields: Mapping[str, str], candidates: list[Found]
) -> Explanation:
    """Return the layer's entry with most fields in common; of several, one with this title."""
    rivals = [each for each in candidates if each.entry.layer == layer]
    if not rivals:
        return Explanation(None, ())
    chosen = min(
        rivals, key=lambda each: (len(_differing(fields, each)), each.entry.title != title)
    )
    return Explanation(chosen, _differing(fields, chosen))


def _differing(fields: Mapping[str, str], other: Found) -> tuple[str, ...]:
    names = [*fields, *(name for name in other.entry.fields if name not in fields)]
    return tuple(name for name in names if fields.get(name) != other.entry.fields.get(name))


def info_data() -> dict[str, Any]:
    """Return the folder, its bytes and files by part, and its entries by layer, for JSON."""
    sizes = Counter[str]()
    counts = Counter[str]()
    for path in storage.files():
        with suppress(OSError):
            part = path.relative_to(storage.folder()).parts[0]
            sizes[part] += storage.on_disk(path.stat().st_size)
            counts[part] += 1
    return {
        "folder": str(storage.folder()),
        "unsafe": why_unsafe(storage.folder()),
        "limit_megabytes": config.current().cache_megabytes,
        "files": dict(counts),
        "bytes": dict(sizes),
        "entries": dict(Counter(found.entry.layer for found in entries())),
    }


def info() -> list[str]:
    """Return the folder, how much it holds of its limit, and how many entries of each layer."""
    data = info_data()
    unsafe, sizes, limit = data["unsafe"], data["bytes"], data["limit_megabytes"]
    files, layers = sorted(data["files"].items()), sorted(data["entries"].items())
    lines = [
        f"folder    {data['folder']}{f', not used: {unsafe}' if unsafe else ''}",
        f"holds     {sum(sizes.values()) / 2**20:.1f} MiB of {limit} MiB",
    ]
    lines += [f"{name:9} {n} files, {sizes[name]} bytes" for name, n in files]
    return lines + [f"  {layer:12} {n} entries" for layer, n in layers]


def explanations(which: str = "", most: int = 20) -> list[str]:
    """Explain each entry whose digest or title starts with `which` by the nearest other entry.

    Every entry was made because its key was missing; the nearest other one shows the difference.
    """
    lines = []
    for found, why in _explained(which):
        lines += [f"{found.entry.layer} {found.entry.title} {found.digest[:12]}", f"  {why}"]
        lines += [f"  {name} = {value}" for name, value in found.entry.fields.items()] * bool(which)
    return lines[: most * 2] if not which else lines


def explanations_data(which: str = "") -> list[dict[str, Any]]:
    """Return what `explanations` tells of all entries, for JSON."""
    return [
        {
            "layer": found.entry.layer,
            "title": found.entry.title,
            "digest": found.digest,
            "nearest": why.nearest and why.nearest.digest,
            "differing": list(why.differing),
            "fields": dict(found.entry.fields),
        }
        for found, why in _explained(which)
    ]


def _explained(which: str) -> Iterator[tuple[Found, Explanation]]:
    everything = entries()
    for found in everything:
        if found.digest.startswith(which) or found.entry.title.startswith(which):
            others = [each for each in everything if each is not found]
            entry = found.entry
            yield found, nearest(entry.layer, entry.title, entry.fields, others)
