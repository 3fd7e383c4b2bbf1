"""The key of a compiled graph, part by part, so that one can ask which part differed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import torch

from minitorch2 import config
from minitorch2.autograd.compiled_program import repeats
from minitorch2.backends.graph_cache.bypass import LAYER, Bypass
from minitorch2.bytecode.guards.torch_state import STATE_READERS, autocast_dtypes
from minitorch2.cache import Key, digest_of_sources, key_of
from minitorch2.codegen.target import Target
from minitorch2.config import Config
from minitorch2.graph.canonical import graph_hash
from minitorch2.graph.fake_tensor import storage_key
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.printer import symbol_sizes
from minitorch2.native.llvm import machine_code

WITHOUT_INFLUENCE: Final = frozenset([
    "disable", "fullgraph", "dynamic", "capture_data_dependent", "duck_shapes", "backend",
    "recompile_limit", "accumulated_recompile_limit", "suppress_errors", "verbose_tracebacks",
    "verify", "cache", "cache_megabytes", "cache_dir", "step_residual_code", "notice_seconds",
    "stages_dir", "wait", "fail_on_recompile", "compare",
])  # fmt: skip
"""Options about what is captured, which the graph shows, and about the cache itself."""

_PACKAGES: Final = ("torch", "numba", "llvmlite", "triton", "sympy")
_FLOORS: Final = ("autograd", "backends", "codegen", "distributed", "graph", "loopir", "native")
"""Whose code makes a compiled graph of a captured one."""

SETTINGS: Final = (
    "fp32_precision", "cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic",
    "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision", "cuda.matmul.fp32_precision",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "mkldnn.enabled", "mkldnn.matmul.fp32_precision", "mkldnn.conv.fp32_precision",
)  # fmt: skip
"""Of ``torch.backends``."""


def _attention() -> str:
    backend = torch.backends.cuda
    kinds = (backend.flash_sdp_enabled, backend.mem_efficient_sdp_enabled, backend.math_sdp_enabled,
             backend.cudnn_sdp_enabled)  # fmt: skip
    return " ".join(str(kind()) for kind in kinds)  # type: ignore[no-untyped-call]


def _autocast() -> str:
    dtypes = [(device, torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")]
    return f"{autocast_dtypes()} of {dtypes}"


STATE: Final[dict[str, Callable[[], object]]] = {
    "grad_mode": torch.is_grad_enabled,
    **{name.replace(" ", "_"): reader for name, reader in STATE_READERS},
    "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled,
    "autocast": _autocast,
    "matmul_precision": torch.get_float32_matmul_precision,
    "attention": _attention,
    "threads": torch.get_num_threads,
}
"""What PyTorch keeps per thread or per process and tracing or code generation asks for."""


def key_of_graph(
    module: GraphModule, examples: Sequence[Any], target: Target[Any], sizes: str = ""
) -> Key:
    """Return the key of a captured graph's compiled form.

    Args:
        sizes: what is known of sizes that vary.

    Raises:
        Bypass: the graph holds what only this process knows.
    """
    try:
        digest = graph_hash(module)
    except TypeError as error:
        raise Bypass(str(error)) from error
    return key_of(
        LAYER,
        _title(module),
        graph=digest,
        inputs="; ".join(map(_input_text, module.graph.placeholders, examples)),
        memory=_shared_memory(examples),
        sizes="; ".join(filter(None, (sizes, *_named_sizes(module)))),
        options=_options(),
        **{name: str(reader()) for name, reader in STATE.items()},
        **{name: _setting(name) for name in SETTINGS},
        target=f"{target.name} {target.variant()}".strip(),
        device=" ".join(_devices(examples)),
        versions=_versions(),
        minitorch2=digest_of_sources(*_FLOORS),
    )


def _title(module: GraphModule) -> str:
    """Return the number of operators, and the user's line of the first one."""
    nodes = [node for node in module.graph.nodes if node.op.startswith("call")]
    source = next((node.meta["source"] for node in nodes if node.meta.get("source")), None)
    place = f" from {source.file}:{source.line}" if source else ""
    return f"{len(nodes)} operators{place}"


def _input_text(node: Any, example: Any) -> str:
    """Return the properties of an input that the graph's own text does not contain."""
    if not isinstance(example, torch.Tensor):
        return "symbol" if any(True for _ in symbol_sizes(node)) else repr(example)
    facts = {
        "grad": example.requires_grad,
        "leaf": example.is_leaf,
        "view": example._is_view(),
        "inference": example.is_inference(),
        "conj": example.is_conj(),
        "neg": example.is_neg(),
    }
    named = [name for name, holds in facts.items() if holds]
    return " ".join([*named, str(example.storage_offset() or "")]).strip()


def _shared_memory(examples: Sequence[Any]) -> str:
    """Return which inputs are one tensor, and which share memory; empty if none do."""
    tensors = [example for example in examples if isinstance(example, torch.Tensor)]
    storages = [storage_key(tensor) for tensor in tensors]
    if len({*storages}) == len(storages):
        return ""
    first: dict[int, int] = {}
    shared = [first.setdefault(storage, i) for i, storage in enumerate(storages)]
    return f"{repeats(tensors)} {shared}"


def _named_sizes(module: GraphModule) -> Iterator[str]:
    """Yield the varying sizes under the names that they have here, which guards use."""
    for node in module.graph.placeholders:
        sizes = [str(size) for size, _ in symbol_sizes(node)]
        if any(not size.isdigit() for size in sizes):
            yield f"[{', '.join(sizes)}]"


def _options() -> str:
    """Return the options that differ from their defaults."""
    now, default = config.current(), Config()
    names = [field.name for field in fields(Config) if field.name not in WITHOUT_INFLUENCE]
    changed = [name for name in names if getattr(now, name) != getattr(default, name)]
    return " ".join(f"{name}={getattr(now, name)!r}" for name in changed)


def _setting(name: str) -> str:
    value: Any = torch.backends
    try:
        for part in name.split("."):
            value = getattr(value, part)
    except (AttributeError, RuntimeError):  # another version; or old and new names are mixed
        return "unknown"
    return str(value)


def _devices(examples: Sequence[Any]) -> Iterator[str]:
    """Yield the processor, and the GPUs that inputs lie on."""
    toolchain = machine_code.toolchain()
    yield f"{toolchain['processor']} {torch.backends.cpu.get_cpu_capability()}"
    devices = {x.device for x in examples if isinstance(x, torch.Tensor) and x.is_cuda}
    for device in sorted(devices, key=str):
        properties = torch.cuda.get_device_properties(device)
        yield f"{device} {properties.name} {properties.multi_processor_count}"


@cache
def _versions() -> str:
    found = [f"python {platform.python_version()}", f"cuda {torch.version.cuda}"]
    return ", ".join([*found, *map(_version, _PACKAGES)])


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
