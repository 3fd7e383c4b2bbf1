"""The pickles inside an archive: written and read with a short list of names, and no others.

A pickle may name any function of any module, and unpickling calls it. The archives of torch.jit
need a dozen names (`_REBUILDERS`), the classes of the archive's own code (`__torch__...`) and the
storage types; `SubsetUnpickler` refuses everything else before anything is called.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch

from minitorch2.errors import ArchiveError

_STORAGE_NAMES = {
    torch.float64: "DoubleStorage",
    torch.float32: "FloatStorage",
    torch.float16: "HalfStorage",
    torch.bfloat16: "BFloat16Storage",
    torch.int64: "LongStorage",
    torch.int32: "IntStorage",
    torch.int16: "ShortStorage",
    torch.int8: "CharStorage",
    torch.uint8: "ByteStorage",
    torch.bool: "BoolStorage",
    torch.complex64: "ComplexFloatStorage",
    torch.complex128: "ComplexDoubleStorage",
}
_STORAGE_DTYPES = {name: dtype for dtype, name in _STORAGE_NAMES.items()}
_LISTS = {
    "List[int]": "build_intlist",
    "List[float]": "build_doublelist",
    "List[bool]": "build_boollist",
    "List[Tensor]": "build_tensorlist",
}
_JIT_PICKLE = "torch.jit._pickle"
CLASS_PREFIX = "__torch__"


@dataclass(eq=False)
class Instance:
    """An object of a class of the archive, as data.

    Attributes:
        class_name: its qualified name, such as ``"__torch__.Encoder"``.
        state: the attributes by name, in order.
    """

    class_name: str
    state: dict[str, Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state


@dataclass(frozen=True)
class Member:
    """A member of an enumeration of the archive, as data: the name of its class, and its value."""

    class_name: str
    value: Any


@dataclass(frozen=True, eq=False)
class TypedContainer:
    """A list or dict with its type, since an empty one does not show its element's type.

    Attributes:
        value: the list or dict; containers inside are `TypedContainer`s as well.
        annotation: the type as Python text, such as ``"Dict[str, List[int]]"``.
        origin: the user's own object, by which two references to it are known.
    """

    value: list[Any] | dict[Any, Any]
    annotation: str
    origin: object


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


class SubsetPickler:
    """Writes values as a pickle of protocol 2, and collects the memory of their tensors.

    Attributes:
        storages: the memory of the tensors met so far; the pickle refers to it by its index.
    """

    def __init__(self) -> None:
        self.storages: list[torch.UntypedStorage] = []
        self._keys: dict[int, int] = {}  # address of a storage -> index in `storages`
        self._origins: dict[tuple[int, torch.dtype], object] = {}
        self._memo: dict[int, tuple[int, object]] = {}
        self._out = io.BytesIO()

    def dumps(self, value: object) -> bytes:
        """Return the pickle of a value.

        Raises:
            ArchiveError: a value, or one inside it, is of a type that an archive cannot hold.
        """
        self._out = io.BytesIO()
        self._memo = {}
        self._out.write(pickle.PROTO + b"\x02")
        self._write(value)
        self._out.write(pickle.STOP)
        return self._out.getvalue()

    def _write(self, value: object) -> None:
        for kind, writer in self._WRITERS.items():
            if isinstance(value, kind):
                writer(self, value)
                return
        raise ArchiveError(f"a value of type {type(value).__name__} cannot be saved in an archive")

    def _remembered(self, origin: object) -> bool:
        """Refer to an object that was written before; say whether it was."""
        if id(origin) not in self._memo:
            return False
        index = self._memo[id(origin)][0]
        self._out.write(pickle.LONG_BINGET + struct.pack("<I", index))
        return True

    def _remember(self, origin: object) -> None:
        index = len(self._memo)
        self._memo[id(origin)] = (index, origin)  # holds the object, so its id stays its own
        self._out.write(pickle.LONG_BINPUT + struct.pack("<I", index))

    def _write_none(self, _: None) -> None:
        self._out.write(pickle.NONE)

    def _write_bool(self, value: bool) -> None:
        self._out.write(pickle.NEWTRUE if value else pickle.NEWFALSE)

    def _write_int(self, value: int) -> None:
        if -(2**31) <= value < 2**31:
            self._out.write(pickle.BININT + struct.pack("<i", value))
        else:
            digits = value.to_bytes(8, "little", signed=True)
            self._out.write(pickle.LONG1 + bytes([8]) + digits)

    def _write_float(self, value: float) -> None:
        self._out.write(pickle.BINFLOAT + struct.pack(">d", value))

    def _write_str(self, value: str) -> None:
        data = value.encode()
        self._out.write(pickle.BINUNICODE + struct.pack("<I", len(data)) + data)

    def _write_tuple(self, value: tuple[object, ...]) -> None:
        self._out.write(pickle.MARK)
        for element in value:
            self._write(element)
        self._out.write(pickle.TUPLE)

    def _call(self, module: str, name: str, *arguments: object) -> None:
        self._out.write(_global(module, name))
        self._write_tuple(arguments)
        self._out.write(pickle.REDUCE)

    def _write_complex(self, value: complex) -> None:
        self._call("builtins", "complex", value.real, value.imag)

    def _write_device(self, value: torch.device) -> None:
        self._call("torch", "device", str(value))

    def _write_container(self, value: TypedContainer) -> None:
        if self._remembered(value.origin):
            return
        name = _LISTS.get(value.annotation)
        self._out.write(_global(_JIT_PICKLE, name or "restore_type_tag") + pickle.MARK)
        self._write_items(value.value)
        if name is None:
            self._write_str(value.annotation)
        self._out.write(pickle.TUPLE + pickle.REDUCE)
        self._remember(value.origin)

    def _write_items(self, value: list[Any] | dict[Any, Any]) -> None:
        if isinstance(value, dict):
            self._out.write(pickle.EMPTY_DICT + pickle.MARK)
            for key, element in value.items():
                self._write(key)
                self._write(element)
            self._out.write(pickle.SETITEMS)
            return
        self._out.write(pickle.EMPTY_LIST + pickle.MARK)
        for element in value:
            self._write(element)
        self._out.write(pickle.APPENDS)

    def _write_instance(self, value: Instance) -> None:
        if self._remembered(value):
            return
        module, _, name = value.class_name.rpartition(".")
        self._out.write(_global(module, name) + pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        self._write_items(value.state)
        self._out.write(pickle.BUILD)
        self._remember(value)

    def _write_member(self, value: Member) -> None:
        module, _, name = value.class_name.rpartition(".")
        self._out.write(_global(module, name))
        self._write(value.value)  # torch.jit calls the class with this, and not with a tuple
        self._out.write(pickle.REDUCE)

    def _write_tensor(self, value: torch.Tensor) -> None:
        if self._remembered(value):
            return
        if value.layout is not torch.strided or value.dtype not in _STORAGE_NAMES:
            kind = f"{value.layout} tensor of {value.dtype}"
            raise ArchiveError(f"a {kind} cannot be saved in an archive")
        self._out.write(_global("torch._utils", "_rebuild_tensor_v2") + pickle.MARK)
        self._write_storage(value)
        self._write_int(int(value.storage_offset()))
        self._write_tuple(tuple(value.shape))
        self._write_tuple(tuple(value.stride()))
        self._write_bool(value.requires_grad)
        self._call("collections", "OrderedDict")
        self._out.write(pickle.TUPLE + pickle.REDUCE)
        self._remember(value)

    def _write_storage(self, tensor: torch.Tensor) -> None:
        """Write which memory a tensor has. torch.jit reads it once only if it is remembered."""
        storage = tensor.detach().untyped_storage()
        key = self._keys.setdefault(storage._cdata, len(self.storages))
        if key == len(self.storages):
            self.storages.append(storage)
        origin = self._origins.setdefault((key, tensor.dtype), object())
        if self._remembered(origin):
            return
        self._out.write(pickle.MARK)
        self._write_str("storage")
        self._out.write(_global("torch", _STORAGE_NAMES[tensor.dtype]))
        self._write_str(str(key))
        self._write_str(str(tensor.device))
        self._write_int(storage.nbytes() // tensor.itemsize)
        self._out.write(pickle.TUPLE + pickle.BINPERSID)
        self._remember(origin)

    _WRITERS: ClassVar[Mapping[type, Callable[[SubsetPickler, Any], None]]] = {
        type(None): _write_none,
        bool: _write_bool,
        int: _write_int,
        float: _write_float,
        complex: _write_complex,
        str: _write_str,
        torch.device: _write_device,
        TypedContainer: _write_container,
        Instance: _write_instance,
        Member: _write_member,
        torch.Tensor: _write_tensor,
        tuple: _write_tuple,
    }


class SubsetUnpickler(pickle.Unpickler):
    """Reads a pickle of an archive; objects of the archive's classes become `Instance`s.

    Args:
        data: the pickle.
        read_storage: gives the bytes of a storage by its key.
        device: where tensors are put; None puts them where they were saved.
    """

    def __init__(
        self,
        data: bytes,
        read_storage: Callable[[str], bytes],
        device: torch.device | None = None,
    ) -> None:
        super().__init__(io.BytesIO(with_tuples(data)))
        self.read_storage = read_storage
        self.device = device
        self.storages: dict[str, torch.UntypedStorage] = {}

    def read(self) -> Any:
        """Return the value.

        Raises:
            ArchiveError: the pickle is damaged, or names what the format does not admit.
        """
        try:
            return self.load()
        except ArchiveError:
            raise
        except Exception as error:
            raise ArchiveError(f"a pickle of the archive is damaged: {error}") from error

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name of the pickle stands for, or refuse it."""
        if module == CLASS_PREFIX or module.startswith(CLASS_PREFIX + "."):
            return type(name, (_Created,), {"class_name": f"{module}.{name}"})
        if module == "torch" and name in _STORAGE_DTYPES:
            return _STORAGE_DTYPES[name]
        if (module, name) in _REBUILDERS:
            return _REBUILDERS[module, name].__get__(self)
        raise ArchiveError(
            f"the archive names {module}.{name}, which the format does not admit",
            fix="do not load files from places that you do not trust",
        )

    def persistent_load(self, pid: Any) -> tuple[torch.UntypedStorage, torch.dtype]:
        """Return the memory and element type that a tensor of the pickle refers to."""
        _, dtype, key, device, _ = pid
        if key not in self.storages:
            data = bytearray(self.read_storage(key))
            none = torch.empty(0, device="cpu")
            memory = torch.frombuffer(data, dtype=torch.uint8) if data else none
            place = self.device or torch.device(device)
            self.storages[key] = memory.to(place).untyped_storage()
        return self.storages[key], dtype

    def _tensor(
        self,
        memory: tuple[torch.UntypedStorage, torch.dtype],
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        requires_grad: bool,
        _hooks: object,
        _metadata: object = None,
    ) -> torch.Tensor:
        storage, dtype = memory
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        is_inside = min((offset, *size, *stride)) >= 0
        if not is_inside or (0 not in size and (last + 1) * dtype.itemsize > storage.nbytes()):
            raise ArchiveError("a tensor of the archive reaches beyond its memory")
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        tensor.set_(storage, offset, size, stride)
        return tensor.requires_grad_(requires_grad)

    def _ordered_dict(self, *_: object) -> dict[Any, Any]:
        return {}

    def _device(self, name: str) -> torch.device:
        return torch.device(name)

    def _complex(self, real: float, imaginary: float) -> complex:
        return complex(real, imaginary)

    def _container(self, value: Any, _annotation: str = "") -> Any:
        return value


class _Created:
    """A class of the archive, as the pickle sees it: creating an object gives an `Instance`."""

    class_name: ClassVar[str]

    def __new__(cls, *value: object) -> Instance | Member:  # type: ignore[misc]
        return Member(cls.class_name, *value) if value else Instance(cls.class_name, {})


_SCALARS: Final = frozenset({"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"})


def with_tuples(data: bytes) -> bytes:
    """Put into a tuple what a pickle of torch.jit calls an enumeration with; Python asks for one.

    Raises:
        ArchiveError: the pickle is damaged.
    """
    made, before, text = bytearray(), "", dict[object, str]()
    try:
        found = [*pickletools.genops(data)]
    except ValueError as error:
        raise ArchiveError(f"a pickle of the archive is damaged: {error}") from error
    ends = [place or 0 for _, _, place in found[1:]] + [len(data)]
    for (opcode, argument, place), end in zip(found, ends, strict=True):
        if opcode.name == "REDUCE" and before in _SCALARS:
            made += pickle.TUPLE1
        made += data[place or 0 : end]
        if opcode.name in ("BINPUT", "LONG_BINPUT"):
            text[argument] = before
        else:
            before = text.get(argument, "") if "BINGET" in opcode.name else opcode.name
    return bytes(made)


_REBUILDERS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): SubsetUnpickler._tensor,
    ("collections", "OrderedDict"): SubsetUnpickler._ordered_dict,
    ("torch", "device"): SubsetUnpickler._device,
    ("builtins", "complex"): SubsetUnpickler._complex,
    (_JIT_PICKLE, "restore_type_tag"): SubsetUnpickler._container,
    **{(_JIT_PICKLE, name): SubsetUnpickler._container for name in _LISTS.values()},
}
"""The names that a pickle may call, and what they do here."""
