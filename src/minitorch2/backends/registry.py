"""The registry of backends: built-in ones, the user's own, and those of installed packages.

Built-in backends and entry points (group ``torch_dynamo_backends``) are imported on first use, so
that listing them is free and ``triton`` need not be installed to use ``numba``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias, TypeVar, overload

import torch

from minitorch2.backends.fx_interop import adapt_fx_backend, wants_torch_fx
from minitorch2.errors import BackendError, did_you_mean
from minitorch2.graph.graph_module import GraphModule

Backend: TypeAlias = Callable[[GraphModule, list[Any]], Callable[..., Any]]
Function = TypeVar("Function", bound=Callable[..., Any])

ENTRY_POINT_GROUP: Final = "torch_dynamo_backends"


@dataclass(frozen=True)
class Entry:
    """A registered backend: itself, or the module and attribute to import it from.

    ``minitorch2.backends.channels_last:kernels`` takes a `target` (`codegen.target`) first.
    """

    backend: Callable[..., Any] | str
    tags: tuple[str, ...] = ()
    target: str = ""

    def load(self) -> Callable[..., Any]:
        """Return the backend, imported if it has to be."""
        if not isinstance(self.backend, str):
            return self.backend
        backend: Callable[..., Any] = _imported(self.backend)
        return partial(backend, _imported(self.target)) if self.target else backend


def _imported(place: str) -> Any:
    """Return an attribute of a module. Deferred: a backend's dependencies may not be installed."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


_HERE: Final = "minitorch2.backends"
BACKENDS: Final[dict[str, Entry]] = {
    "eager": Entry(f"{_HERE}.eager:eager", ("debug",)),
    "eager_noexcept": Entry(f"{_HERE}.eager:eager_noexcept", ("debug",)),
    "aot_eager": Entry(f"{_HERE}.aot_eager:aot_eager", ("debug",)),
    "aot_eager_decomp_partition": Entry(
        f"{_HERE}.aot_eager:aot_eager_decomp_partition", ("debug",)
    ),
    "aot_numpy": Entry(f"{_HERE}.aot_numpy:aot_numpy", ("debug",)),
    "numba": Entry(f"{_HERE}.numba:numba"),
    "triton": Entry(f"{_HERE}.triton:triton"),
    "halide": Entry(
        f"{_HERE}.channels_last:kernels", target="minitorch2.codegen.halide.target:HALIDE"
    ),
}

DEFAULTS: Final = {"cuda": "triton"}
"""The backend where any tensor is on a device of this type; ``numba`` elsewhere."""
_OURS: Final = "leave out `backend`, or name 'numba' (CPU) or 'triton' (GPU)"
PEERS: Final = {
    "inductor": ("torch.compile's own compiler; minitorch2 is in its place", _OURS),
    "cudagraphs": ("no backend here", "compile with mode='reduce-overhead'"),
    "aot_ts": ("a backend of TorchScript", _OURS),
    "ts": ("a backend of TorchScript", _OURS),
    "minitorch2": ("our name as a backend of torch.compile", _OURS),
    "eager_debug": ("no backend here", "use 'eager' under config.patch(verify=True)"),
    "aot_eager_default_partitioner": ("no backend here", "use 'aot_eager'"),
}
"""Backends of `torch.compile` that are none here: what they are, and what to use instead."""


@overload
def register_backend(name: Function) -> Function: ...
@overload
def register_backend(
    name: str | None = None, tags: Sequence[str] = ()
) -> Callable[[Function], Function]: ...
def register_backend(name: Any = None, tags: Sequence[str] = ()) -> Any:
    """Register a backend under its function's name or another one; a decorator, with or without
    arguments.

    Raises BackendError when the name is taken by another function.
    """
    if callable(name):
        return register_backend()(name)

    def register(backend: Function) -> Function:
        key = name or backend.__name__
        known = BACKENDS.get(key)
        if known is not None and known.backend is not backend:
            raise BackendError(
                f"there is already a backend called {key!r}", code="backend-name-taken"
            )
        BACKENDS[key] = Entry(backend, tuple(tags))
        return backend

    return register


def list_backends(exclude_tags: Iterable[str] = ("debug", "experimental")) -> list[str]:
    """Return the names of all backends without any of these tags, sorted."""
    excluded = set(exclude_tags)
    own = [name for name, entry in BACKENDS.items() if not excluded & set(entry.tags)]
    return sorted({*own, *_entry_points()})


def lookup_backend(backend: str | Callable[..., Any]) -> Backend:
    """Return the backend of this name, or a callable made into one.

    Raises:
        BackendError: there is no such backend, or it cannot be imported here.
    """
    if not isinstance(backend, str):
        return as_backend(backend)
    if backend in BACKENDS:
        return as_backend(_load(backend, BACKENDS[backend].load))
    if backend in _entry_points():
        return adapt_fx_backend(_load(backend, _entry_points()[backend].load))
    if backend in PEERS:
        raise BackendError(
            f"the backend {backend!r} is {PEERS[backend][0]}",
            code="unknown-backend",
            fix=PEERS[backend][1],
        )
    names = list_backends(())
    raise BackendError(
        f"there is no backend called {backend!r}{did_you_mean(backend, names)}",
        code="unknown-backend",
        fix=f"choose one of {', '.join(names)}, or pass a callable",
    )


def as_backend(backend: Callable[..., Any]) -> Backend:
    """Return a callable as a backend; if it takes a ``torch.fx.GraphModule``, convert to it."""
    if not callable(backend):
        cause = f"a backend is a name or a callable, not {backend!r}"
        fix = f"choose one of {', '.join(list_backends(()))}"
        raise BackendError(cause, code="unknown-backend", fix=fix)
    return adapt_fx_backend(backend) if wants_torch_fx(backend) else backend


def devices_of(gm: GraphModule, example_inputs: Sequence[Any]) -> list[torch.device]:
    """Return the devices of all tensors that a graph takes or makes."""
    values = [*example_inputs, *(node.meta.get("val") for node in gm.graph.nodes)]
    named = [node.kwargs.get("device") for node in gm.graph.nodes]
    return [
        *(value.device for value in values if isinstance(value, torch.Tensor)),
        *(torch.device(name) for name in named if isinstance(name, (str, torch.device))),
    ]


def default_backend(gm: GraphModule, example_inputs: Sequence[Any]) -> str:
    """Return the backend for the devices of all tensors that a graph takes or makes."""
    types = (device.type for device in devices_of(gm, example_inputs))
    return next(filter(None, map(DEFAULTS.get, types)), "numba")


def fitting_backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph by the backend that fits the devices of its tensors."""
    return lookup_backend(default_backend(gm, example_inputs))(gm, example_inputs)


def _load(name: str, load: Callable[[], Any]) -> Callable[..., Any]:
    try:
        loaded: Callable[..., Any] = load()
    except ImportError as error:
        raise BackendError(
            f"the backend {name!r} cannot be imported: {error}", code="backend-not-available"
        ) from error
    return loaded


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """Return the backends of other installed packages by name (ours is for ``torch.compile``)."""
    found = entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: point for point in found if not point.value.startswith("minitorch2.")}
