"""The file of an exported program or a package: a zip of JSON, raw tensors and other entries.

    manifest.json   format, version, the versions that wrote it, and what `kind` needs
    data/0, ...     the memory of tensors, little-endian; two tensors may share one
    ...             what the kind adds: graph.json and code.py, or kernels
    digests.json    the SHA-256 of every other entry

Nothing is pickled. Entries are stored without compression, at multiples of 64 bytes, so that other
readers may map them. Digests find damage and accidental changes, and are not a signature.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from minitorch2.errors import ExportError

FORMAT: Final = "minitorch2 export"
VERSION: Final = 1
"""The version of the files that are written. Readers know this one and those before it."""
_ALIGNMENT: Final = 64
_LOCAL_HEADER: Final = 30  # bytes of a zip entry's header before its name
_DAMAGE: Final = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, ValueError, TypeError,
                  RuntimeError)  # the last for entries with a password  # fmt: skip
"""The errors of reading a file that is no such container, or a damaged one."""
_AGAIN: Final = "write the file again with `program.save` or `minitorch2.package`"


@dataclass(frozen=True)
class Container:
    """The content of a file.

    Attributes:
        manifest: what it is, by its key ``kind``: ``"program"`` or ``"package"``.
        entries: the other entries.
    """

    manifest: dict[str, Any]
    entries: Mapping[str, bytes]


def write_container(path: str | os.PathLike[str], content: Container) -> None:
    """Write a file: as a whole, or not at all.

    Raises:
        ExportError: the path is no name of a file, or its folder does not exist.
        OSError: the file cannot be written.
    """
    target = _file_named(path)
    if target.is_dir():
        raise refused(f"{target} is a folder", "give the name of a file in it")
    if not target.parent.is_dir():
        raise refused(f"there is no folder {target.parent}", "make it, or name another one")
    versions = {"format": FORMAT, "version": VERSION, "torch": torch.__version__}
    manifest = json.dumps({**versions, **content.manifest}, indent=1).encode()
    entries = {"manifest.json": manifest, **content.entries}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in entries.items()}
    entries["digests.json"] = json.dumps(digests, indent=1).encode()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            for name, data in entries.items():
                _add(archive, name, data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _file_named(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise refused(f"the path is a {type(path).__name__}", "give the name of a file")
    return Path(path)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add an entry whose data begins at a multiple of `_ALIGNMENT`."""
    entry = zipfile.ZipInfo(name)
    start = archive.start_dir + _LOCAL_HEADER + len(name.encode())
    padding = (-start - 4) % _ALIGNMENT  # an extra field has 4 bytes before its content
    entry.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
    archive.writestr(entry, data)


def read_container(path: str | os.PathLike[str]) -> Container:
    """Read a file and check it.

    Raises:
        ExportError: it is truncated, changed, of a later version, or no such file at all.
        OSError: it cannot be opened.
    """
    file = path if hasattr(path, "read") else _file_named(path)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
            digests = dict(json.loads(entries.pop("digests.json")))
            manifest = dict(json.loads(entries["manifest.json"]))
            version = int(manifest.get("version", 0))
    except _DAMAGE as error:
        cause = f"{path} is no exported program or package, or is truncated: {error}"
        raise refused(cause) from None
    changed = [name for name, data in entries.items()
               if hashlib.sha256(data).hexdigest() != digests.get(name)]  # fmt: skip
    missing = digests.keys() - entries.keys()
    if manifest.get("format") != FORMAT:
        raise refused(f"{path} is a file of another program")
    if version > VERSION:
        raise refused(
            f"{path} has version {version} of the format, and {VERSION} is known",
            "read it with the version of minitorch2 that wrote it",
        )
    if changed or missing:
        raise refused(f"{path} was changed: {', '.join(sorted({*changed, *missing}))}")
    del entries["manifest.json"]
    return Container(manifest, entries)


def refused(cause: str, fix: str = _AGAIN) -> ExportError:
    """Return the error about a file that cannot be used."""
    return ExportError(cause, code="export-file", fix=fix)


# Tensors ------------------------------------------------------------------------------------------


def write_tensors(tensors: Mapping[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the description of tensors, and the entries with their memory."""
    described: dict[str, Any] = {}
    entries: dict[str, bytes] = {}
    known: dict[int, str] = {}
    alive: list[torch.Tensor] = []
    for name, tensor in tensors.items():
        if (
            tensor.layout is not torch.strided
            or tensor.is_quantized
            or tensor.device.type == "meta"
        ):
            kind = tensor.device if tensor.device.type == "meta" else tensor.layout
            raise ExportError(f"a file cannot hold {name}, a tensor of {kind}", code="export")
        plain = tensor.detach().resolve_conj().resolve_neg()
        storage = plain.untyped_storage()
        entry = known.setdefault(storage.data_ptr(), f"data/{len(known)}")
        alive.append(plain)  # another one must not get its address
        if entry not in entries:
            whole = torch.empty(0, dtype=torch.uint8, device=plain.device).set_(storage)
            entries[entry] = whole.cpu().numpy().tobytes()
        described[name] = {
            "data": entry, "dtype": str(plain.dtype).removeprefix("torch."),
            "device": str(plain.device), "shape": list(plain.shape),
            "stride": list(plain.stride()), "offset": plain.storage_offset(),
        }  # fmt: skip
    return described, entries


def read_tensors(
    described: Mapping[str, Any], entries: Mapping[str, bytes]
) -> dict[str, torch.Tensor]:
    """Return the tensors that `write_tensors` has written.

    Raises:
        ExportError: a tensor lies on a device that is not here, or reaches beyond its memory.
    """
    memory: dict[str, torch.Tensor] = {}
    found = {}
    for name, form in described.items():
        if form["data"] not in memory:
            data = bytearray(entries[form["data"]])
            none = torch.empty(0, dtype=torch.uint8, device="cpu")
            raw = torch.frombuffer(data, dtype=torch.uint8) if data else none
            try:
                memory[form["data"]] = raw.to(form["device"])
            except (RuntimeError, AssertionError) as error:
                cause = f"{name} lies on {form['device']}, which is not here: {error}"
                raise refused(cause, "load it on a machine with that device") from None
        dtype = getattr(torch, form["dtype"])
        flat = memory[form["data"]].untyped_storage()
        tensor = torch.empty(0, dtype=dtype, device=form["device"])
        try:
            found[name] = tensor.set_(flat, form["offset"], form["shape"], form["stride"])
        except RuntimeError as error:
            raise refused(f"the memory of {name} is too short: {error}") from None
    return found
