"""The layout of a tensor's metadata in memory, found by probing, so that guards compare in place.

Asking a tensor for its dtype, sizes, strides, dispatch keys and `requires_grad` makes an object per
answer and takes half a microsecond; a model has hundreds of parameters. The machine of
`machine.guard_machine` compares the words themselves, which takes some nanoseconds. Their offsets
depend on the version of PyTorch. Tensors with marked metadata give them away, and every finding is
tried on tensors of all sorts. If anything looks unfamiliar, no layout is used, and guards ask the
tensor.

    Python object --(object)--> C++ tensor: ndim, sizes[5], strides[5], dtype, keys
                                            --(flags)--> autograd: requires_grad byte, grad_fn word

The dispatch keys name the type of device, the layout, and whether the tensor is lazily negated or
conjugated, belongs to inference mode, or is a subclass's. A tensor needs a gradient if its own flag
says so or if it has a `grad_fn`; one without autograd data needs none. In between are views, which
may need one because their base does: guards ask the view.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from minitorch2.logs import get_logger
from minitorch2.native.memory import bytes_at, read_word, read_words

_LOGGER = get_logger(__name__)

MOST_DIMENSIONS = 5
"""A tensor keeps so many sizes and strides in itself; those of larger rank lie elsewhere."""
OBJECT_WORDS = 8
"""Words of a tensor's Python object that are looked at."""
TENSOR_WORDS = 24
"""Words of a C++ tensor that are looked at; it is longer than that."""
AUTOGRAD_BYTES = 192
"""Bytes of the autograd data that are looked at; they are longer than that."""

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
"""Dtypes that guards recognize; tensors of others are asked."""


_Found = TypeVar("_Found")
_Masked: TypeAlias = tuple[int, int, int]
"""The offset of a word in the C++ tensor, a mask, and the word behind the mask."""
_EVERY_BIT = 2**64 - 1
_WORD = 8


def requires_grad(tensor: torch.Tensor) -> bool:
    """Return whether a view requires gradients, unseen by modes that see PyTorch's functions."""
    if not torch._C._len_torch_function_stack():
        return tensor.requires_grad
    with torch._C.DisableTorchFunction():
        return tensor.requires_grad


def _row(start: int, numbers: Iterable[int]) -> list[_Masked]:
    """Return the words of numbers that lie side by side."""
    return [(start + _WORD * i, _EVERY_BIT, number) for i, number in enumerate(numbers)]


class UnfamiliarLayoutError(Exception):
    """A field could not be recognized."""


@dataclass(frozen=True, eq=False)
class TensorLayout:
    """The places of fields, as offsets in bytes.

    Attributes:
        tensor: the place of the pointer to the C++ tensor, in the Python object.
        ndim, sizes, strides, keys: the places of words in the C++ tensor.
        storage: the place of the pointer to the memory's owner, in the C++ tensor.
        dtype: the place of the word that holds the dtype, and `dtype_shift` its lowest bit; 16
            bits. The next 16 bits are the type and the index of the device.
        autograd: the place of the pointer to the autograd data, in the C++ tensor.
        requires_grad: the place of a byte in the autograd data.
        grad_fn: the place of a pointer in the autograd data.
        dtypes: the number of each dtype.
    """

    tensor: int
    ndim: int
    sizes: int
    strides: int
    keys: int
    storage: int
    dtype: int
    dtype_shift: int
    autograd: int
    requires_grad: int
    grad_fn: int
    dtypes: dict[torch.dtype, int]

    def table(self, known: Mapping[str | int, Any]) -> list[int] | None:
        """Return the operands of a WORDS instruction; None for metadata that it cannot check.

        Args:
            known: properties of a tensor and their values: ``"dtype"``, ``"device"``, ``"ndim"``,
                ``"shape"``, ``"stride"``, ``"dispatch_keys"`` or the number of a dimension; and
                ``"requires_grad"``.
        """
        words: list[_Masked] = []
        for name, value in known.items():
            found = self._words(name, value)
            if found is None:
                return None
            words += found
        flags = [self.autograd, self.requires_grad, self.grad_fn, int(known["requires_grad"])]
        flags.append(id(requires_grad))
        return [self.tensor, len(words), *(part for word in words for part in word), *flags]

    def _words(self, name: str | int, value: Any) -> list[_Masked] | None:
        """Return the words that tell a property; None if it does not lie in words."""
        match name:
            case "dispatch_keys":
                return [(self.keys, _EVERY_BIT, value)]
            case "dtype" if value in self.dtypes:
                return [self._half_word(self.dtype_shift, self.dtypes[value])]
            case "device" if value.type == "cpu":  # the dispatch keys tell the type
                return []
            case "device":
                return [self._half_word(self.dtype_shift + 16, _device_number(self, value))]
            case "ndim" if value <= MOST_DIMENSIONS:
                return [(self.ndim, _EVERY_BIT, value)]
            case "shape" if len(value) <= MOST_DIMENSIONS:
                return [(self.ndim, _EVERY_BIT, len(value)), *_row(self.sizes, value)]
            case "stride":
                return _row(self.strides, value)
            case int():
                return _row(self.sizes + _WORD * name, (value,))
            case "requires_grad":  # a flag, not a word
                return []
        return None

    def _half_word(self, shift: int, number: int) -> _Masked:
        return self.dtype, 0xFFFF << shift, number << shift

    def agrees(self, tensor: torch.Tensor) -> bool:
        """Return whether this tensor's metadata is found at the offsets of this layout."""
        words = read_words(id(tensor), OBJECT_WORDS)
        impl = words[self.tensor // _WORD]
        found = read_words(impl, TENSOR_WORDS)

        def numbers(start: int) -> tuple[int, ...]:
            return tuple(found[start // _WORD :][: tensor.dim()])

        meta = found[self.autograd // _WORD]
        flagged = bool(meta) and (
            _bytes(meta)[self.requires_grad] != 0 or read_word(meta + self.grad_fn) != 0
        )
        is_asked = bool(meta) and not flagged
        return (
            impl == tensor._cdata
            and found[self.ndim // _WORD] == tensor.dim()
            and numbers(self.sizes) == tuple(tensor.shape)
            and numbers(self.strides) == tensor.stride()
            and found[self.keys // _WORD] == torch._C._dispatch_keys(tensor).raw_repr()
            and (found[self.dtype // _WORD] >> self.dtype_shift) & 0xFFFF
            == self.dtypes[tensor.dtype]
            and (found[self.dtype // _WORD] >> self.dtype_shift + 16 & 0xFF == 0) == tensor.is_cpu
            and (is_asked or flagged == tensor.requires_grad)
            and found[self.storage // _WORD] == tensor.untyped_storage()._cdata
        )


@cache
def tensor_layout() -> TensorLayout | None:
    """Return the layout in this process; None, and a log warning, if it could not be found.

    It is looked for in a thread of its own, where no mode of the caller's is on.
    """
    return _outside_modes(_find)


def _outside_modes(find: Callable[[], _Found]) -> _Found:
    found: list[_Found] = []
    thread = threading.Thread(target=lambda: found.append(find()))
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, and starts no more threads
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return find()
    thread.join()
    return found[0]


def _find() -> TensorLayout | None:
    try:
        layout = _probe()
        for tensor in _samples():
            if not layout.agrees(tensor):
                raise UnfamiliarLayoutError(f"metadata of {tensor!r} lies elsewhere")
    except (UnfamiliarLayoutError, RuntimeError) as error:
        _LOGGER.warning("guards ask tensors for their metadata, which is slow: %s", error)
        return None
    return layout


@cache
def _device_number(layout: TensorLayout, device: torch.device) -> int:
    """Return the 16 bits of a device, read off a tensor that is there."""
    sample = _outside_modes(lambda: torch.empty(0, device=device))
    word = read_words(sample._cdata, TENSOR_WORDS)[layout.dtype // _WORD]
    return word >> (layout.dtype_shift + 16) & 0xFFFF


def _bytes(address: int) -> bytes:
    return bytes_at(address, AUTOGRAD_BYTES).raw


def _only(found: Iterable[int], what: str) -> int:
    """Return the one place where something was found."""
    places = list(found)
    if len(places) != 1:
        raise UnfamiliarLayoutError(f"{what}: {len(places)} places could be it")
    return places[0]


def _place(words: Sequence[int], values: Sequence[int], what: str) -> int:
    """Return the offset at which values lie side by side."""
    n = len(values)
    found = (_WORD * i for i in range(len(words)) if list(words[i : i + n]) == list(values))
    return _only(found, what)


def _probe() -> TensorLayout:
    sizes, strides = (3, 5, 7, 11, 13), (90017, 18013, 2017, 211, 17)
    marked = torch.empty_strided(sizes, strides, device="meta")
    words = read_words(marked._cdata, TENSOR_WORDS)
    first = _place(words, sizes, "sizes")
    dtype, shift, dtypes = _probe_dtypes()
    return TensorLayout(
        tensor=_place(read_words(id(marked), OBJECT_WORDS), [marked._cdata], "the C++ tensor"),
        ndim=_place(words[: first // _WORD], [len(sizes)], "ndim"),
        sizes=first,
        strides=_place(words, strides, "strides"),
        keys=_place(words, [torch._C._dispatch_keys(marked).raw_repr()], "dispatch keys"),
        storage=_place(words, [marked.untyped_storage()._cdata], "storage"),
        dtype=dtype,
        dtype_shift=shift,
        dtypes=dtypes,
        **_probe_autograd(),
    )


def _probe_dtypes() -> tuple[int, int, dict[torch.dtype, int]]:
    """Return the offset and shift of the 16 bits that tell the dtype, and each dtype's number."""
    samples = {dtype: list(_samples_of(dtype)) for dtype in DTYPES}
    read = {d: [read_words(t._cdata, TENSOR_WORDS) for t in ts] for d, ts in samples.items()}

    def numbers(place: int, shift: int) -> dict[torch.dtype, set[int]]:
        return {d: {w[place] >> shift & 0xFFFF for w in words} for d, words in read.items()}

    found = []
    for place in range(TENSOR_WORDS):
        for shift in (0, 16, 32, 48):
            values = numbers(place, shift)
            distinct = set().union(*values.values())
            if all(len(v) == 1 for v in values.values()) and len(distinct) == len(values):
                found.append(4 * place + shift // 16)
    place, part = divmod(_only(found, "dtype"), 4)
    codes = {d: value.pop() for d, value in numbers(place, 16 * part).items()}
    return _WORD * place, 16 * part, codes


def _samples_of(dtype: torch.dtype) -> Iterator[torch.Tensor]:
    for size in (2, 3, 4):
        yield torch.empty(size, dtype=dtype)
        yield torch.empty(size, dtype=dtype, device="meta")


def _probe_autograd() -> dict[str, int]:
    """Find `requires_grad` and `grad_fn`: switch them on and off and see which words change."""
    leaf = torch.empty(2)
    before = read_words(leaf._cdata, TENSOR_WORDS)
    leaf.requires_grad_(True)
    after = read_words(leaf._cdata, TENSOR_WORDS)
    new = (_WORD * i for i, (b, a) in enumerate(zip(before, after)) if b == 0 and a != 0)
    autograd = _only(new, "autograd data")
    on = _bytes(after[autograd // _WORD])
    leaf.requires_grad_(False)
    off = _bytes(after[autograd // _WORD])
    flag = _only((i for i, pair in enumerate(zip(on, off)) if pair == (1, 0)), "requires_grad")
    return {"autograd": autograd, "requires_grad": flag, "grad_fn": _probe_grad_fn(autograd)}


def _probe_grad_fn(autograd: int) -> int:
    """Find the pointer that `detach_` clears: one word, or the first of a shared pointer's two."""
    with torch.enable_grad():
        result = torch.empty(2, requires_grad=True) * 2
    meta = read_words(result._cdata, TENSOR_WORDS)[autograd // _WORD]
    held = read_words(meta, AUTOGRAD_BYTES // _WORD)
    result.detach_()
    cleared = read_words(meta, AUTOGRAD_BYTES // _WORD)
    gone = [i for i, (b, a) in enumerate(zip(held, cleared)) if b != 0 and a == 0]
    return _WORD * _only((i for i in gone if i - 1 not in gone), "grad_fn")


def _samples() -> Iterator[torch.Tensor]:
    """Yield tensors of all sorts, on which a layout is tried."""
    plain = torch.zeros(2, 3)
    changes: list[Callable[[], torch.Tensor]] = [
        lambda: plain,
        lambda: torch.zeros(()),
        lambda: torch.zeros(2, 3, 4, 5, 6).permute(4, 2, 0, 1, 3),
        lambda: torch.zeros(0, 4, dtype=torch.int64),
        lambda: torch.zeros(2, dtype=torch.bool),
        lambda: torch.zeros(2, 3, dtype=torch.complex64).conj(),
        lambda: torch._neg_view(plain),
        lambda: torch.nn.Parameter(plain.clone()),
        lambda: torch.nn.Parameter(plain.clone(), requires_grad=False),
        lambda: plain.clone().requires_grad_().t(),
        lambda: plain.clone().requires_grad_().mul(2).detach(),
        lambda: plain.clone().requires_grad_().mul(2).detach_(),
        lambda: plain.clone().add_(torch.ones(2, 3, requires_grad=True)),
        lambda: plain.clone().requires_grad_().view(3, 2)[1:],
        lambda: plain.clone().requires_grad_().requires_grad_(False),
        lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last, device="meta"),
        lambda: plain.expand(4, 2, 3),
        lambda: plain.clone().resize_(4, 5, 6),
    ]
    with torch.enable_grad():
        yield from (change() for change in changes)
    with torch.inference_mode():
        yield torch.zeros(2)
