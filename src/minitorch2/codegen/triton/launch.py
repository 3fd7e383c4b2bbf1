"""Load a kernel's text, compile it, launch it.

A kernel's decorator (`@pointwise(...)`, `@reduction(...)`) makes it a `Launcher`. The first launch
for new sizes goes through Triton's JIT front end, which inspects each argument and compiles; later
ones call the compiled kernel's own launcher with addresses (PyTorch 2 paper, section 4.5: "the
pointwise decorator encodes boilerplate code").
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from minitorch2 import config, stages
from minitorch2.codegen import cache as disk
from minitorch2.codegen.triton.kernel import KernelSource
from minitorch2.codegen.triton.values import triton_dtype

ALIGNMENT = 16
"""Compiled code may assume that addresses are multiples of so many bytes."""

JitFunction = Any  # triton.JITFunction or InterpretedFunction, which have no types
Decorator = Callable[[JitFunction], "Launcher"]


class Launcher:
    """A kernel with its block sizes: `run(*tensors, *sizes)` launches it on the current stream."""

    def __init__(
        self,
        function: JitFunction,
        *,
        xnumel: int | None,
        blocks: dict[str, int],
        num_warps: int,
        checks_indices: bool,
    ) -> None:
        self.function = function
        self.blocks = blocks
        self.xnumel = xnumel
        names = list(function.arg_names)
        self._size_count = sum(name.startswith("ks") or name in ("xnumel", "rnumel")
                               for name in names)  # fmt: skip
        self._pointer_count = len(names) - self._size_count - len(blocks)
        self._xnumel_at = names.index("xnumel") if "xnumel" in names else None
        self._options: dict[str, Any] = {"num_warps": num_warps}
        if checks_indices:  # assertions need `debug`, which would also check for overflow
            self._options |= {"debug": True, "sanitize_overflow": False}
        self._prepared: dict[tuple[int, ...], Callable[..., None]] = {}

    def run(self, *arguments: Any) -> None:
        """Launch with the kernel's tensors, in order, then its sizes."""
        tensors = arguments[: self._pointer_count]
        sizes = arguments[self._pointer_count :]
        addresses = [tensor.data_ptr() for tensor in tensors]
        key = (tensors[0].get_device(), *sizes)
        launch = self._prepared.get(key)
        if launch is not None and _all_aligned(addresses):
            launch(*addresses)
        else:
            self._first_launch(key, arguments, addresses)

    def compile_for(self, dtypes: Sequence[torch.dtype], target: GPUTarget) -> Any:
        """Compile without launching, also where there is no GPU: Triton's `CompiledKernel`.

        Args:
            dtypes: of the elements behind each pointer, in order.
            target: for example `GPUTarget("cuda", 90, 32)`, a Hopper GPU.
        """
        names = self.function.arg_names
        signature = dict.fromkeys(names, "i64")
        signature |= {n: pointer_type(dtype) for n, dtype in zip(names, dtypes)}
        signature |= dict.fromkeys(self.blocks, "constexpr")
        aligned = {(i,): [["tt.divisibility", ALIGNMENT]] for i in range(len(dtypes))}
        source = ASTSource(self.function, signature, dict(self.blocks), aligned)
        return triton.compile(source, target=target, options=dict(self._options))

    def programs(self, arguments: tuple[Any, ...]) -> int:
        """How many blocks the elements are divided into."""
        xnumel = self.xnumel if self._xnumel_at is None else arguments[self._xnumel_at]
        assert xnumel is not None
        return -(-xnumel // self.blocks["XBLOCK"])

    def _first_launch(
        self, key: tuple[int, ...], arguments: tuple[Any, ...], addresses: list[int]
    ) -> None:
        programs = self.programs(arguments)
        if programs == 0:
            return
        with _device_of(arguments[0]):
            kernel = self.function[(programs,)](*arguments, **self.blocks, **self._options)
        if kernel is not None and _all_aligned(addresses):
            self._prepared[key] = self._prepare(kernel, programs, key[0], key[1:])

    def _prepare(
        self, kernel: Any, programs: int, device: int, sizes: tuple[int, ...]
    ) -> Callable[..., None]:
        """A function of addresses that launches the compiled kernel."""
        launch, code, metadata = kernel.run, kernel.function, kernel.packed_metadata
        tail = (*sizes, *self.blocks.values())
        stream_of = triton.runtime.driver.active.get_current_stream

        def prepared(*addresses: int) -> None:
            launch(programs, 1, 1, stream_of(device), code, metadata, None, None, None,
                   *addresses, *tail)  # fmt: skip

        return prepared


def pointer_type(dtype: torch.dtype) -> str:
    """Triton's name of a pointer to elements of `dtype`: `*fp32`, `*i64`, `*i1`."""
    name = triton_dtype(dtype).removeprefix("tl.")
    for long, short in (("uint", "u"), ("int", "i"), ("bfloat", "bf"), ("float", "fp")):
        if name.startswith(long):
            return f"*{short}{name.removeprefix(long)}"
    raise AssertionError(name)


def _all_aligned(addresses: list[int]) -> bool:
    together = 0
    for address in addresses:
        together |= address
    return together % ALIGNMENT == 0


def _device_of(tensor: torch.Tensor) -> Any:
    """Make the tensor's device current for a block; on the CPU this does nothing."""
    return torch.cuda.device(tensor.get_device())


def pointwise(
    *, xnumel: int | None, XBLOCK: int, num_warps: int, checks_indices: bool = False
) -> Decorator:
    """The decorator of a kernel without reductions. `xnumel` is None if it is an argument."""
    return lambda function: Launcher(
        function,
        xnumel=xnumel,
        blocks={"XBLOCK": XBLOCK},
        num_warps=num_warps,
        checks_indices=checks_indices,
    )


def reduction(
    *, xnumel: int | None, XBLOCK: int, RBLOCK: int, num_warps: int, checks_indices: bool = False
) -> Decorator:
    """The decorator of a kernel that visits what it reduces in a loop."""
    return lambda function: Launcher(
        function,
        xnumel=xnumel,
        blocks={"XBLOCK": XBLOCK, "RBLOCK": RBLOCK},
        num_warps=num_warps,
        checks_indices=checks_indices,
    )


persistent_reduction = reduction
"""The decorator of a kernel whose block holds everything that is reduced."""


_LAUNCHERS: dict[str, Launcher] = {}


def load_kernel(source: KernelSource) -> Launcher:
    """The launcher of a kernel; kernels that compute the same share one.

    Triton reads a kernel's source from its file, so the text is written into the cache folder (or
    into a temporary one); what runs is the text, never what the folder held.
    """
    if source.key not in _LAUNCHERS:
        stages.count("kernels_loaded")
        _LAUNCHERS[source.key] = _load(source.name, source.text)
    return _LAUNCHERS[source.key]


def _load(name: str, text: str) -> Launcher:
    path = _write(name, text)
    namespace: dict[str, Any] = {"__name__": f"minitorch2_kernels.{name}", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), namespace)
    launcher = namespace[name]
    assert isinstance(launcher, Launcher)
    return launcher


def _write(name: str, text: str) -> Path:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = disk.folder() if config.current().cache else _temporary_folder()
    path = folder / "triton" / digest / f"{name}.py"
    if disk.write_file(path, text.encode()):
        return path
    path = _temporary_folder() / digest / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@cache
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="minitorch2-kernels-"))

