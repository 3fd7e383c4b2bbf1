"""Tensors in machine code: the addresses of their data, and new ones, without Python.

`x.data_ptr()` takes 0.15 us and `torch.empty_strided` 1.1 us, most of it to read arguments. A short
graph does little else, so both are done here through PyTorch's C interface (its `shim.h`, which is
meant for code that is compiled ahead of time):

    word(a):                                 what a kernel gets for an argument
        an int: its value;  a Tensor or Parameter: aoti_torch_get_data_ptr(handle of a)
        anything else:  a.data_ptr()
    empty_cpu(size, stride, dtype), empty_gpu(size, stride, dtype, device):
        aoti_torch_empty_strided(...) -> handle;  THPVariable_Wrap(handle) -> the Python object

A *handle* is the address of the C++ tensor in its Python object. Its offset there, and the place of
a dtype's number, are found by experiment. If anything is unfamiliar, Python does the work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
import torch
from llvmlite import ir

from minitorch2.logs import get_logger
from minitorch2.native.llvm import builtin
from minitorch2.native.llvm.builtin import BODY, INT, NULL, OBJECT, WORD, WORDS
from minitorch2.native.memory import address_of, read_words

_LOGGER = get_logger(__name__)
WORD_OF = "minitorch2_word"
WORD_OF_KIND = ir.FunctionType(WORD, [OBJECT])
_HANDLES = OBJECT.as_pointer()
_TORCH = {
    "aoti_torch_empty_strided": ir.FunctionType(INT, [WORD, WORDS, WORDS, INT, INT, INT, _HANDLES]),
    "aoti_torch_delete_tensor_object": ir.FunctionType(INT, [OBJECT]),
    "aoti_torch_get_data_ptr": ir.FunctionType(INT, [OBJECT, _HANDLES]),
    "_Z16THPVariable_WrapRKN2at10TensorBaseE": ir.FunctionType(OBJECT, [OBJECT]),
}
_PYTHON = {
    "PyLong_AsLongLong": ir.FunctionType(WORD, [OBJECT]),
    "PyErr_Occurred": ir.FunctionType(OBJECT, []),
    "PyObject_HasAttrString": ir.FunctionType(INT, [OBJECT, OBJECT]),
    "PyObject_CallMethod": ir.FunctionType(OBJECT, [OBJECT, OBJECT, OBJECT], var_arg=True),
    "PyObject_Vectorcall": ir.FunctionType(OBJECT, [OBJECT, _HANDLES, WORD, OBJECT]),
    "PyTuple_Size": ir.FunctionType(WORD, [OBJECT]),
    "Py_DecRef": ir.FunctionType(ir.VoidType(), [OBJECT]),
}
_TYPES = {
    "minitorch2_tensor": torch.Tensor,
    "minitorch2_parameter": torch.nn.Parameter,
    "minitorch2_dtype": torch.dtype,
}
_PYTHON_TYPES = ("PyLong_Type", "PyTuple_Type")
_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
_TYPE_OF = object.__basicsize__ - 8
"""Where an object keeps its type; what is its own comes right behind it."""
_ITEMS = tuple.__basicsize__
_CPU, _CUDA = 0, 1  # how PyTorch numbers kinds of devices


@dataclass(frozen=True)
class _Interface:
    """The functions of PyTorch, and the offsets in its objects."""

    functions: Mapping[str, int]
    handle: int
    dtype: int


@cache
def interface_of_torch() -> _Interface | None:
    """Return PyTorch's interface; None if anything about it is unfamiliar."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        functions = {name: address_of(getattr(library, name)) for name in _TORCH}
        codes = {name: getattr(library, f"aoti_torch_dtype_{name}")() for name in _DTYPES}
    except (OSError, AttributeError) as error:
        _LOGGER.info("tensors are made by Python: %s", error)
        return None
    handle, dtype = _offset_of_handle(), object.__basicsize__
    places = {name: ctypes.c_uint8.from_address(id(getattr(torch, name)) + dtype) for name in codes}
    if handle is None or any(places[name].value != code for name, code in codes.items()):
        _LOGGER.info("tensors are made by Python: they do not look as expected")
        return None
    return _Interface(functions, handle, dtype)


def _offset_of_handle() -> int | None:
    """Return the offset of the C++ tensor's address in the Python object of a tensor."""
    plain = torch.empty(0)
    found = []
    for tensor in (plain, torch.nn.Parameter(plain), plain.detach()):
        words = read_words(id(tensor), torch.Tensor.__basicsize__ // 8)
        found.append([8 * i for i, word in enumerate(words) if word == tensor._cdata])
    return found[0][0] if len(found[0]) == 1 and found.count(found[0]) == len(found) else None


@cache
def word_of() -> int:
    """Return the address of `int64 word(PyObject *)`; -1 with a Python exception if it has none."""
    return _load(WORD_OF)


def _python_empty(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: int = -1
) -> object:
    place = "cpu" if device < 0 else f"cuda:{device}"
    return torch.empty_strided(size, stride, dtype=dtype, device=place)


@cache
def _load(symbol: str) -> int:
    interface = interface_of_torch()
    builtin.link_python(*_PYTHON, *_PYTHON_TYPES)
    for name, address in (interface.functions if interface else {}).items():
        llvm.add_symbol(name, address)
    for name, kind in _TYPES.items():
        llvm.add_symbol(name, id(kind))
    return builtin.load_cached(
        symbol,
        symbol,
        lambda: build(symbol, interface),
        places=str(interface and (interface.handle, interface.dtype)),
        objects=f"{_TYPE_OF} {_ITEMS}",
    )


def build(symbol: str, interface: _Interface | None) -> ir.Module:
    """Return the module of a function; without an interface it asks Python for each tensor."""
    module = ir.Module(name=symbol)
    for name in (*_TYPES, *_PYTHON_TYPES):
        ir.GlobalVariable(module, ir.IntType(8), name)
    known = _PYTHON if interface is None else _PYTHON | _TORCH
    functions = {name: ir.Function(module, kind, name) for name, kind in known.items()}
    functions["word"] = functions["PyLong_AsLongLong"]
    if symbol == WORD_OF:
        _build_word(ir.Function(module, WORD_OF_KIND, WORD_OF), functions, interface)
    elif interface is not None:
        _build_empty(ir.Function(module, BODY, symbol), functions, interface)
    return module


def _is_a(builder: ir.IRBuilder, value: ir.Value, kind: str) -> ir.Value:
    """Return whether the type of an object is exactly this one."""
    place = builder.gep(value, [WORD(_TYPE_OF)])
    found = builder.load(builder.bitcast(place, OBJECT.as_pointer()))
    return builder.icmp_unsigned("==", found, builder.module.get_global(kind))


def _build_word(
    function: ir.Function, functions: Mapping[str, ir.Function], interface: _Interface | None
) -> None:
    builder = ir.IRBuilder(function.append_basic_block())
    (value,) = function.args
    as_int = functions["PyLong_AsLongLong"]
    with builder.if_then(_is_a(builder, value, "PyLong_Type")):
        builder.ret(builder.call(as_int, [value]))
    if interface is not None:
        is_tensor = _is_a(builder, value, "minitorch2_tensor")
        is_parameter = _is_a(builder, value, "minitorch2_parameter")
        with builder.if_then(builder.or_(is_tensor, is_parameter), likely=True):
            data = builder.alloca(OBJECT)
            handle = builder.gep(value, [WORD(interface.handle)])
            failed = builder.call(functions["aoti_torch_get_data_ptr"], [handle, data])
            with builder.if_then(builder.icmp_unsigned("==", failed, INT(0)), likely=True):
                builder.ret(builder.ptrtoint(builder.load(data), WORD))
    name = builtin.text(builder, "data_ptr")
    has_data = builder.call(functions["PyObject_HasAttrString"], [value, name])
    with builder.if_then(builder.icmp_unsigned("==", has_data, INT(0))):
        builder.ret(builder.call(as_int, [value]))  # sets an exception, if it is no number
    found = builder.call(functions["PyObject_CallMethod"], [value, name, NULL])
    with builder.if_then(builder.icmp_unsigned("==", found, NULL)):
        builder.ret(WORD(-1))
    word = builder.call(as_int, [found])
    builder.call(functions["Py_DecRef"], [found])
    builder.ret(word)


def _build_empty(
    function: ir.Function, functions: Mapping[str, ir.Function], interface: _Interface
) -> None:
    """Build the fast way, and a call of the Python function `receiver` where it does not apply.

    A fourth argument is the number of a GPU; without it, or if it is negative, it is the CPU.
    """
    builder = ir.IRBuilder(function.append_basic_block())
    receiver, arguments, count = function.args
    slow = function.append_basic_block("slow")
    with builder.goto_block(slow):
        call = functions["PyObject_Vectorcall"]
        builder.ret(builder.call(call, [receiver, arguments, count, NULL]))

    def go_on_if(condition: ir.Value) -> None:
        further = function.append_basic_block()
        builder.cbranch(condition, further, slow)
        builder.position_at_end(further)

    takes_device = builder.icmp_signed("==", count, WORD(4))
    go_on_if(builder.or_(takes_device, builder.icmp_signed("==", count, WORD(3))))
    index = builder.alloca(WORD)
    builder.store(WORD(-1), index)
    with builder.if_then(takes_device):
        given = builder.load(builder.gep(arguments, [WORD(3)]))
        builder.store(builder.call(functions["PyLong_AsLongLong"], [given]), index)
    device = builder.trunc(builder.load(index), INT)
    is_gpu = builder.icmp_signed(">=", device, INT(0))
    size, stride, dtype = (builder.load(builder.gep(arguments, [WORD(i)])) for i in range(3))
    go_on_if(_is_a(builder, dtype, "minitorch2_dtype"))
    go_on_if(_is_a(builder, size, "PyTuple_Type"))
    go_on_if(_is_a(builder, stride, "PyTuple_Type"))
    dims = builder.call(functions["PyTuple_Size"], [size])
    go_on_if(builder.icmp_signed("==", dims, builder.call(functions["PyTuple_Size"], [stride])))
    blocks = [builder.alloca(WORD, dims), builder.alloca(WORD, dims)]
    for numbers, block in zip((size, stride), blocks, strict=True):
        items = builder.bitcast(builder.gep(numbers, [WORD(_ITEMS)]), _HANDLES)
        builtin.build_conversion(builder, functions, items, dims, block)
    code = builder.zext(builder.load(builder.gep(dtype, [WORD(interface.dtype)])), INT)
    handle = builder.alloca(OBJECT)
    empty = functions["aoti_torch_empty_strided"]
    kind = builder.select(is_gpu, INT(_CUDA), INT(_CPU))
    failed = builder.call(empty, [dims, *blocks, code, kind, device, handle])
    go_on_if(builder.icmp_unsigned("==", failed, INT(0)))
    wrap = functions["_Z16THPVariable_WrapRKN2at10TensorBaseE"]
    result = builder.call(wrap, [builder.load(handle)])
    builder.call(functions["aoti_torch_delete_tensor_object"], [builder.load(handle)])
    builder.ret(result)


empty_cpu = empty_gpu = (
    builtin.make_builtin("empty", _load("minitorch2_empty"), _python_empty)
    if interface_of_torch() is not None
    else _python_empty
)
"""`empty_cpu(size, stride, dtype)`: a tensor on the CPU whose memory is not filled;
`empty_gpu(size, stride, dtype, device)`: one on the GPU of that number."""
