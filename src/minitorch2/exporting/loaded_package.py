"""Packages in a process that has no compiler: torch and NumPy are enough.

Nothing that this module imports may import Numba, llvmlite or SymPy.
"""

from __future__ import annotations

import builtins
import mmap
import os
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from minitorch2.exporting import as_json
from minitorch2.exporting.container import Container, read_tensors, refused
from minitorch2.exporting.machines import levels_here
from minitorch2.exporting.object_code import Image
from minitorch2.exporting.running import Runner
from minitorch2.exporting.signature import Signature
from minitorch2.exporting.transforms import refuse_transforms
from minitorch2.native.cpython.builtin_functions import address, bind, new_method
from minitorch2.native.cpython.errors import UnsupportedPythonError
from minitorch2.native.kernels import openmp

_LAUNCH: Final = "minitorch2_launch"
Launcher = Callable[..., None]


class LoadedPackage:
    """A compiled program from a file: a callable of the program's arguments.

    Attributes:
        signature: what it takes and gives.
        tensors: its parameters, buffers and constants by their paths.
        machine: the feature level of its kernels.
    """

    def __init__(
        self,
        signature: Signature,
        tensors: Mapping[str, torch.Tensor],
        call: Callable[[list[Any]], Sequence[Any]],
        machine: str,
    ) -> None:
        self.signature = signature
        self.tensors = dict(tensors)
        self.machine = machine
        self._runner = Runner(signature, call, self.tensors)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises:
            ExportError: an argument has another structure, dtype, size or value than it serves, or
                is differentiated; or a transform of `torch.func` or a dispatch mode is active.
        """
        return self._runner(args, kwargs)

    run = __call__

    def __str__(self) -> str:
        return f"kernels for {self.machine}\n{self.signature}"


def package_of(content: Container, path: str | os.PathLike[str]) -> LoadedPackage:
    """Return the package in the content of a file.

    Raises:
        ExportError: it is for another kind of machine, or for another version of PyTorch.
    """
    manifest = content.manifest
    _check_version(str(manifest["torch"]), path)
    level = _level_of(manifest["images"], path)
    signature = as_json.read_signature(manifest["signature"])
    tensors = read_tensors(manifest["tensors"], content.entries)
    described = manifest["images"][level]
    image = Image(
        bytearray(content.entries[f"code/{level}"]),
        described["entries"],
        described["internal"],
        described["external"],
    )
    run = _run_of(content.entries["wrapper.py"].decode(), _Kernels(image), str(path))
    extra = [tensors.pop(name) for name in manifest["extra"]]
    users = {
        place
        for place, each in enumerate(each for each in signature.inputs if each.name)
        if each.kind == "user"
    }

    def call(inputs: list[Any]) -> Sequence[Any]:
        refuse_transforms()
        dense = [x.contiguous() if i in users else x for i, x in enumerate(inputs)]
        return run([*dense, *extra])

    return LoadedPackage(signature, tensors, call, level)


def _check_version(wrote: str, path: object) -> None:
    """Check that the version of PyTorch is the one whose operators the wrapper calls."""
    if wrote.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise refused(
            f"{path} is for PyTorch {wrote}, and this is PyTorch {torch.__version__}",
            "package the program again with this version",
        )


def _level_of(images: Mapping[str, Any], path: object) -> str:
    here = levels_here()
    fitting = [level for level in here if level in images]
    if not fitting:
        raise refused(
            f"{path} has kernels for {', '.join(images)}, and this machine runs "
            f"{', '.join(here) or 'none of these kinds'}",
            "package the program with machines=... for this kind as well",
        )
    return fitting[-1]


def _run_of(text: str, kernels: _Kernels, path: str) -> Callable[[list[Any]], Sequence[Any]]:
    """Execute a wrapper's text; return its `call`."""
    names: dict[str, Any] = {
        "__name__": "minitorch2.package",
        "load_kernel": kernels.launcher,
        "join_kernels": kernels.join,
        "empty_cpu": _empty,
        "with_layout": _with_layout,
        "copy_to_layout": _copy_to_layout,
        "float_bits": _float_bits,
        "check": _check,
    }
    exec(compile(text, f"{path}/wrapper.py", "exec"), names)
    return names["call"]  # type: ignore[no-any-return]


def _empty(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu")


def _with_layout(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    """Return a library's result with the planned strides, as `codegen.extern` does."""
    return tensor if tensor.stride() == stride else _copy_to_layout(tensor, size, stride)


def _copy_to_layout(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> torch.Tensor:
    return _empty(size, stride, tensor.dtype).copy_(tensor)


def _float_bits(number: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits


def _check(condition: bool, message: str, error: str = "RuntimeError") -> None:
    """Raise the exception of a condition on sizes that only data tell, unless it holds."""
    if not condition:
        raise getattr(builtins, error, RuntimeError)(message)


class _Kernels:
    """The machine code of a package in memory."""

    def __init__(self, image: Image) -> None:
        names = {name for _, name, _ in image.external}
        addresses = _addresses(names)
        self.entries = image.entries
        self.states: dict[int, list[int]] = {}
        self.made: list[Launcher] = []
        try:
            self.base = _place(len(image.code), lambda base: image.at(base, addresses))
        except OSError as error:
            raise refused(str(error), "allow it, or load the saved program instead") from error
        self.launch = self.base + self.entries[_LAUNCH]

    def launcher(
        self, name: str, symbol: str, arguments: int, grain: int, inner: int | None
    ) -> Launcher:
        """Return the launcher of a kernel; it stands for `load_kernel` of a wrapper."""
        entry, place = self.base + self.entries[symbol], -1 if inner is None else inner
        return self._launcher(name, [arguments + 1, 1, entry, max(1, grain), arguments, place])

    def join(self, name: str, launchers: Sequence[Launcher]) -> Launcher:
        """Return the launcher of several kernels; it stands for `join_kernels`."""
        given = [self.states[id(launcher)] for launcher in launchers]
        kernels = [word for state in given for word in state[2:]]
        return self._launcher(name, [sum(state[0] for state in given), len(given), *kernels])

    def _launcher(self, name: str, words: list[int]) -> Launcher:
        """Return a launcher with this state, but for the number of threads (see `launcher`)."""
        state = array("q", [words[0], 1 if _SERIAL else 0, *words[1:]])
        _STATES.append(state)
        made: Launcher = bind(new_method(name, self.launch), state.buffer_info()[0])
        self.states[id(made)] = words
        self.made.append(made)  # so that its id stays its own
        return made


_STATES: Final[list[array[int]]] = []
"""The states of all launchers, which machine code reads."""
_SERIAL: Final[list[bool]] = []


def _run_serially() -> None:
    """Run kernels on one thread: a child of `os.fork` has no other threads of OpenMP."""
    _SERIAL.append(True)
    torch.set_num_threads(1)
    for state in _STATES:
        state[1] = 1


os.register_at_fork(after_in_child=_run_serially)


def _addresses(names: set[str]) -> dict[str, int]:
    """Return the addresses of functions of this process.

    Raises:
        ExportError: there is no such function here.
    """
    threads = openmp.addresses() or {}
    try:
        return {name: threads.get(name) or address(name) for name in names}
    except UnsupportedPythonError as error:
        raise refused(
            f"the kernels call a function that this process does not have: {error.cause}",
            "install the same builds of Python and PyTorch as where it was packaged",
        ) from error


def _place(size: int, code_at: Callable[[int], bytes]) -> int:
    """Put machine code into memory for as long as the process lives; return its address.

    The memory is a file without a name. It is mapped to be read and run, and never to be written.

    Args:
        code_at: gives the code for an address.

    Raises:
        OSError: the system forbids new code.
    """
    file = os.memfd_create("minitorch2")
    os.ftruncate(file, size)
    pages = mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_EXEC)
    _PAGES.append(np.frombuffer(pages, dtype=np.uint8))
    base: int = _PAGES[-1].__array_interface__["data"][0]
    os.pwrite(file, code_at(base), 0)
    os.close(file)
    return base


_PAGES: Final[list[np.ndarray[Any, Any]]] = []
"""Memory that holds code; it stays mapped while a view of it lives."""
