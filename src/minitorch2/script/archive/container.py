"""The zip file of an archive: a pickle of the module, its code, its constants, and tensors' memory.

Folder and entries are those of torch.jit, which reads and writes the same files:
``NAME/data.pkl``, ``NAME/code/...py``, ``NAME/constants.pkl``, ``NAME/data/0`` and so on.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import torch

from minitorch2.errors import ArchiveError
from minitorch2.script.archive.pickle_subset import Instance, SubsetPickler, SubsetUnpickler

File: TypeAlias = str | os.PathLike[str] | IO[bytes]
NEWEST_VERSION: Final = 10
"""The version of the operators that is written, and the newest one that can be read."""
_ALIGNMENT = 64  # readers map the memory of tensors from the file
_LOCAL_HEADER = 30  # bytes of a zip entry's header before its name
_ROOT = "archive"


@dataclass
class Contents:
    """Hold the contents of an archive.

    Attributes:
        root: the module.
        code: for each module path, such as ``"__torch__/torch/nn/modules/linear"``, the text.
        constants: what the code refers to as ``CONSTANTS.c0`` and so on.
        extra_files: further entries, by name.
        version: of the operators that the code calls.
    """

    root: Instance
    code: dict[str, str]
    constants: tuple[Any, ...] = ()
    extra_files: dict[str, bytes] = field(default_factory=dict)
    version: int = NEWEST_VERSION


def write_container(contents: Contents, file: File) -> None:
    """Write an archive to a path, or to a file that is open for writing bytes.

    Raises:
        ArchiveError: the module, or a constant, holds a value that an archive cannot hold.
    """
    entries = {
        **_pickled("data", contents.root),
        **{f"code/{path}.py": text.encode() for path, text in contents.code.items()},
        **_pickled("constants", contents.constants),
        "version": b"%d\n" % contents.version,
        "byteorder": b"little",
        **{f"extra/{name}": data for name, data in contents.extra_files.items()},
    }
    top = Path(file).stem if isinstance(file, str | os.PathLike) else _ROOT
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            _add(archive, f"{top}/{name}", data)


def _pickled(name: str, value: object) -> dict[str, bytes]:
    """Return the entries of one pickle: itself, and the memory of its tensors."""
    pickler = SubsetPickler()
    entries = {f"{name}.pkl": pickler.dumps(value)}
    for key, storage in enumerate(pickler.storages):
        entries[f"{name}/{key}"] = _bytes_of(storage)
    return entries


def _bytes_of(storage: torch.UntypedStorage) -> bytes:
    memory = torch.empty(0, dtype=torch.uint8, device=storage.device)
    memory.set_(storage, 0, (storage.nbytes(),))  # type: ignore[call-overload]
    return memory.cpu().numpy().tobytes()


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add an entry whose data begins at a multiple of `_ALIGNMENT`."""
    entry = zipfile.ZipInfo(name)
    start = archive.start_dir + _LOCAL_HEADER + len(name.encode())
    padding = (-start - 4) % _ALIGNMENT  # an extra field has 4 bytes before its content
    entry.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
    archive.writestr(entry, data)


def read_container(file: File, device: torch.device | None = None) -> Contents:
    """Read an archive of ours or of torch.jit.

    Args:
        file: a path, or a file that is open for reading bytes.
        device: where tensors are put; None puts them where they were saved.

    Raises:
        ArchiveError: the file is no archive, is damaged, or names what the format does not admit.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _read(archive, device)
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise ArchiveError(f"the file is no archive of a scripted module: {error}") from error


def _read(archive: zipfile.ZipFile, device: torch.device | None) -> Contents:
    names = archive.namelist()
    top = next((name.split("/")[0] for name in names if name.endswith("/data.pkl")), None)
    if top is None:
        raise ArchiveError("the file has no entry data.pkl, so it is no archive of a module")
    if f"{top}/byteorder" in names and archive.read(f"{top}/byteorder") != b"little":
        raise ArchiveError("the archive was written on a machine of another byte order")
    root = _unpickled(archive, top, "data", device)
    if not isinstance(root, Instance):
        raise ArchiveError("the archive holds no module")
    constants = _unpickled(archive, top, "constants", device)
    code = {name.removesuffix(".py"): text.decode() for name, text in _below(archive, top, "code")}
    extra_files = dict(_below(archive, top, "extra"))
    has_other_place = f"{top}/.data/version" in names  # torch.jit puts the version here or there
    version = int(archive.read(f"{top}/.data/version" if has_other_place else f"{top}/version"))
    if version > NEWEST_VERSION:
        message = (
            f"the archive has version {version} of the operators, and {NEWEST_VERSION} is known"
        )
        raise ArchiveError(message, fix="save the module with an older PyTorch")
    return Contents(root, code, tuple(constants), extra_files, version)


def _unpickled(archive: zipfile.ZipFile, top: str, name: str, device: torch.device | None) -> Any:
    data = archive.read(f"{top}/{name}.pkl")
    return SubsetUnpickler(data, lambda key: archive.read(f"{top}/{name}/{key}"), device).read()


def _below(archive: zipfile.ZipFile, top: str, folder: str) -> list[tuple[str, bytes]]:
    """Return names and contents of a folder's entries, without what serves debuggers only."""
    start = f"{top}/{folder}/"
    return [
        (name.removeprefix(start), archive.read(name))
        for name in archive.namelist()
        if name.startswith(start) and not name.endswith(".debug_pkl")
    ]
