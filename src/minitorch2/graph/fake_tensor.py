"""Fake tensors: shape, stride, dtype and device without data, computed by PyTorch's meta kernels.

A :class:`FakeTensor` wraps a meta tensor and records the device of the real tensor. Operators run
on the meta tensors; a view's meta tensor shares its base's storage, so aliasing can be asked
(:func:`same_storage`); an in-place operator returns the same object. An operator that needs data
raises :class:`DataDependentError`. Autograd works above fake tensors as above any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch

from minitorch2.errors import UnsupportedError
from minitorch2.graph.data_dependent import DATA_DEPENDENT, NoSymbolicForm, mark_elements
from minitorch2.graph.dispatch_mode import DispatchMode
from minitorch2.graph.fake_checks import check_arguments
from minitorch2.graph.fake_kernels import FAKE_KERNELS, METADATA_OPERATORS, ON_CPU
from minitorch2.graph.fake_pointwise import (
    is_plain_pointwise,
    pointwise_result,
    result_without_elements,
)
from minitorch2.graph.known_scalars import known_value, learn
from minitorch2.graph.node import map_items
from minitorch2.graph.symbols.expression import SYMBOLIC, argument_key, expr_of, same_sizes
from minitorch2.graph.symbols.ragged import give_ragged_size, may_be_offsets
from minitorch2.graph.symbols.shape_env import ShapeEnv
from minitorch2.graph.symbols.unbacked import current_symbols
from minitorch2.graph.unbacked_views import UNBACKED_VIEWS
from minitorch2.graph.user_kernels import NoSymbolsError, run_user_kernel, user_kernel
from minitorch2.graph.wrapper_tensors import is_wrapper, with_parts
from minitorch2.native.torch_internals import dispatch
from minitorch2.native.torch_internals.dispatch import DisableTorchDispatch
from minitorch2.native.torch_internals.global_state import with_number
from minitorch2.native.torch_internals.gradients import InferenceSwitch, is_wrapped_by_transform
from minitorch2.native.torch_internals.operators import OpOverload as Operator

aten = torch.ops.aten
_META: Final = torch.device("meta")
_NO_KEYS: Final = dispatch.DispatchKeySet(dispatch.DispatchKey.Undefined)
_ZEROS: Final = aten._efficientzerotensor.default
_ZERO: Final = dispatch.DispatchKeySet(dispatch.DispatchKey.ZeroTensor)
"""The mark of zeros without memory, which forward mode makes: it computes no product with them."""


class DataDependentError(UnsupportedError):
    """An operator's result depends on values, which a fake tensor does not have."""

    default_code = "data-dependent"


class FakeTensor(torch.Tensor):
    """A tensor without data.

    ``meta`` is the meta tensor that operators run on; ``known`` see `known_scalars`.
    """

    meta: torch.Tensor
    fake_device: torch.device
    is_symbolic: bool
    known: torch.Tensor | None

    @staticmethod
    def __new__(cls, meta: torch.Tensor, device: torch.device) -> FakeTensor:
        device = with_number(device)
        with InferenceSwitch(meta.is_inference()):
            fake: FakeTensor = dispatch.make_wrapper_tensor(
                cls,
                meta.size(),
                strides=_strides(meta),
                storage_offset=meta.storage_offset(),
                dtype=meta.dtype,
                device=device,
                _extra_dispatch_keys=_ZERO if meta._is_zerotensor() else _NO_KEYS,
            )
        fake.meta = meta
        fake.fake_device = device
        fake.known = None
        if may_be_offsets(meta):
            give_ragged_size(fake)
        fake.is_symbolic = env_of((*meta.size(), *meta.stride())) is not None
        return fake

    @property
    def last_write(self) -> object | None:
        """A mark of the last write to the memory, through ``.data``, too; None without one."""
        return getattr(self.meta.untyped_storage(), "last_write", None)

    @property
    def elements(self) -> tuple[object, object]:
        """A mark of the elements: two fakes with equal marks have equal elements."""
        return vars(self.meta).setdefault("elements", object()), self.last_write

    def renew(self) -> FakeTensor:
        """Forget which elements these are: the fake stands for others of the same form."""
        with DisableTorchDispatch():  # no tracer is to see it
            self.meta = self.meta.detach()
        return self

    def note_write(self) -> None:
        """Note that an operator or a kernel of the program writes to the memory."""
        self.known = None
        memory: Any = self.meta.untyped_storage()
        memory.last_write = object()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"FakeTensor({list(self.shape)}, {self.dtype}, {self.fake_device})"

    def tolist(self) -> Any:
        """Return a symbol for each number of a vector.

        Raises:
            DataDependentError: a fake tensor has no data, and symbols are not allowed.
        """
        if self.dim() == 1 and current_symbols() is not None:
            return [number.item() for number in self.unbind()]
        raise DataDependentError("tolist() needs the data of a tensor that is not computed yet")

    def numpy(self, *, force: bool = False) -> Any:
        """Raise DataDependentError: a fake tensor has no data."""
        raise DataDependentError("numpy() needs the data of a tensor that is not computed yet")

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Operator, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not all(issubclass(other, FakeTensor) for other in types):
            return NotImplemented
        return run_fake(func, args, kwargs or {})


def _strides(meta: torch.Tensor) -> Sequence[Any]:
    """Return a tensor's strides; for a sparse tensor, the strides of a dense one of its size."""
    if meta.layout is torch.strided:
        return meta.stride()
    return torch.empty(meta.size(), device=_META).stride()


class FakeMode(DispatchMode):  # type: ignore[no-untyped-call]
    """While active, operators without a fake argument (factories) give fake tensors too."""

    def see(self, func: Operator, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return run_fake(func, args, kwargs)


def to_fake(
    tensor: torch.Tensor, sizes: Sequence[Any] | None = None, strides: Sequence[Any] | None = None
) -> FakeTensor:
    """Make a fake with the tensor's size, stride, dtype, device, requires_grad and class.

    ``sizes`` replaces the sizes (with SymInts); strides then keep their dense order, unless they
    are given as well. Each call makes a fresh storage: use :class:`FakeConverter` to keep aliasing
    between several tensors.
    """
    return FakeConverter().convert(tensor, sizes, strides)


def fake_like(fake: FakeTensor) -> FakeTensor:
    """Return the same fake value as a new leaf outside autograd; it shares the storage."""
    return FakeTensor(fake.meta, fake.fake_device)


def same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two fakes (or two real tensors) are views of one memory."""
    return storage_key(a) == storage_key(b)


def storage_key(tensor: torch.Tensor) -> int:
    """Return an identity of the tensor's memory, valid while the tensor lives."""
    value = tensor.meta if isinstance(tensor, FakeTensor) else tensor
    return int(value.untyped_storage()._cdata)


class FakeConverter:
    """The converter of real tensors into fakes: the same object gives the same fake, views stay
    views.
    """

    def __init__(self) -> None:
        self._fakes: dict[int, FakeTensor] = {}
        self._storages: dict[int, torch.Tensor] = {}
        self._alive: list[torch.Tensor] = []  # ids are only valid while the tensors live

    def convert(
        self,
        tensor: torch.Tensor,
        sizes: Sequence[Any] | None = None,
        strides: Sequence[Any] | None = None,
    ) -> FakeTensor:
        """Return the fake of ``tensor``; see :func:`to_fake`."""
        known = self._fakes.get(id(tensor))
        if known is not None:
            return known
        if is_wrapper(tensor):
            return self._wrapper(tensor)  # type: ignore[return-value]
        fake = tensor if isinstance(tensor, FakeTensor) else self._make(tensor, sizes, strides)
        self._fakes[id(tensor)] = fake
        self._alive.append(tensor)
        return fake

    def _wrapper(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a wrapper tensor of the same class, made of fakes."""
        fake = with_parts(tensor, lambda _, part: self.convert(part))
        if tensor.requires_grad != fake.requires_grad:
            fake.requires_grad_(tensor.requires_grad)
        self._alive.append(tensor)
        return fake

    def _make(
        self, tensor: torch.Tensor, sizes: Sequence[Any] | None, strides: Sequence[Any] | None
    ) -> FakeTensor:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise _layout_error(tensor)
        if is_wrapped_by_transform(tensor):
            raise UnsupportedError("a tensor that outlived its transform has no memory to show")
        with InferenceSwitch(tensor.is_inference()):
            if sizes is None:
                meta = self._meta(tensor)
            else:
                meta = meta_tensor(sizes, strides or dense_strides(tensor, sizes), tensor.dtype)
        fake = FakeTensor(meta, tensor.device)
        if tensor.requires_grad:
            fake.requires_grad_()
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        return fake

    def _meta(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "meta":
            return tensor.detach()
        key = storage_key(tensor)
        size, stride, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        base = self._storages.get(key)
        if base is None:
            end = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
            count = max(end, tensor.untyped_storage().nbytes() // tensor.element_size())
            base = torch.empty(count, dtype=tensor.dtype, device="meta")
            self._storages[key] = base
        flat = base if base.dtype == tensor.dtype else base.view(tensor.dtype)
        return flat.as_strided(size, stride, offset)


def _layout_error(tensor: torch.Tensor) -> UnsupportedError:
    cause = f"tensors of layout {tensor.layout} have no fake form"
    return UnsupportedError(cause, code="tensor-layout")


def dense_strides(tensor: torch.Tensor, sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return strides for other (symbolic) sizes, with dimensions stored in the tensor's order."""
    order = sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d))
    strides: list[Any] = [0] * tensor.dim()
    step: Any = 1
    for dimension in order:
        strides[dimension] = step
        step = step * sizes[dimension]
    return tuple(strides)


def meta_tensor(sizes: Sequence[Any], strides: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return a new meta tensor; sizes and strides may be SymInts."""
    return torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype, device="meta")


def env_of(values: Any) -> ShapeEnv | None:
    """Return the environment of the first symbolic number among the values."""
    for value in values:
        if isinstance(value, SYMBOLIC):
            env: ShapeEnv = value.node.shape_env
            return env
    return None


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """The facts about an operator that fake propagation needs, read from its schema and tags."""

    needs_data: bool
    is_factory: bool
    changes_metadata: bool
    has_out: bool
    makes_fresh_tensors: bool


@cache
def operator_facts(func: Operator) -> OperatorFacts:
    """Return the facts of one operator overload."""
    tags, schema = func.tags, func._schema
    needs_data = torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags
    aliases = any(item.alias_info is not None for item in (*schema.returns, *schema.arguments))
    has_rule = func.namespace == "aten" or func in FAKE_KERNELS
    return OperatorFacts(
        needs_data=needs_data or func in (aten._local_scalar_dense.default, aten.equal.default),
        is_factory=any(argument.name == "device" for argument in schema.arguments),
        changes_metadata=torch.Tag.inplace_view in tags,
        has_out=any(argument.is_out for argument in schema.arguments),
        makes_fresh_tensors=not aliases and has_rule and func is not _ZEROS,
    )


def _shape_is_known(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether this call's shape is known although the operator usually depends on data.

    That holds for indexing without a mask, and for a given ``output_size``.
    """
    if func in (aten.index.Tensor, aten._unsafe_index.Tensor):
        return all(
            index is None or index.dtype not in (torch.bool, torch.uint8) for index in args[1]
        )
    return kwargs.get("output_size") is not None


def run_fake(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator on fake arguments. A real tensor among them is a constant.

    Raises DataDependentError where the result's shape or value depends on data, UnsupportedError
    where PyTorch has no meta kernel.
    """
    if func in METADATA_OPERATORS:  # also of tensors that PyTorch has wrapped
        return METADATA_OPERATORS[func](*args, **kwargs)
    if func is aten.item.default:  # from below autograd, where PyTorch keeps it whole
        func = aten._local_scalar_dense.default
    facts = operator_facts(func)
    if func is aten._local_scalar_dense.default and known_value(args[0]) is not None:
        return func(known_value(args[0]))
    kernel = user_kernel(func)
    if facts.needs_data and kernel is None and not _shape_is_known(func, args, kwargs):
        return _data_dependent(func, args, kwargs)
    if facts.changes_metadata:  # others may hold the same meta tensor
        args[0].meta = args[0].meta.detach()
    call = _MetaCall()
    meta_args = [call.unwrap(value) for value in args]
    meta_kwargs = {key: call.unwrap(value) for key, value in kwargs.items()} if kwargs else {}
    device = call.device
    if facts.is_factory and (kwargs.get("device") is not None or not call.fakes):
        device = torch.device(kwargs.get("device") or torch.get_default_device())
        meta_kwargs["device"] = "meta"
    device = device or torch.device("cpu")
    try:
        if kernel is None:
            result = _run_on_meta(func, meta_args, meta_kwargs, call.env)
        else:
            result = _run_users(func, kernel, meta_args, meta_kwargs, call.env)
    except RuntimeError as error:
        raise (_without_kernel(func, error) or error) from error
    elsewhere = (fake.meta for fake in call.fakes if fake.fake_device.type != device.type)
    if facts.is_factory and any(meta is result for meta in elsewhere):
        result = result.clone()  # all devices are one here, so the copy was the original
    if device.type == "cpu" and func in ON_CPU:
        result = ON_CPU[func](result, *meta_args)
    if facts.changes_metadata:
        _refresh(args[0])
    for out in call.fakes if facts.has_out else ():
        if not same_sizes(out.shape, out.meta.shape):
            become(out, FakeTensor(out.meta, device))
    fake = call.wrap(result, device)
    learn(func, args, kwargs, fake, facts.makes_fresh_tensors)
    mark_elements(func, args, kwargs, flat([fake]))
    return fake


def _run_users(
    func: Operator, kernel: Any, args: list[Any], kwargs: dict[str, Any], env: ShapeEnv | None
) -> Any:
    """Run a user's fake kernel, which may ask for unbacked sizes."""
    symbols = current_symbols()
    env = env or (None if symbols is None else symbols.env)
    try:
        if env is None:
            return run_user_kernel(kernel, symbols, args, kwargs)
        with env.running(str(func)), dispatch.enable_python_dispatcher():
            return run_user_kernel(kernel, symbols, args, kwargs)
    except NoSymbolsError:
        raise DataDependentError(f"{func} makes a tensor whose size depends on data") from None


def _data_dependent(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the result with unbacked symbols for sizes and numbers that depend on data."""
    symbols, rule = current_symbols(), DATA_DEPENDENT.get(func)
    reason = f"{func} needs the data of a tensor that is not computed yet"
    fakes = [v for v in flat((*args, *kwargs.values())) if isinstance(v, torch.Tensor)]
    if symbols is None or rule is None or not all(isinstance(v, FakeTensor) for v in fakes):
        raise DataDependentError(reason)
    try:
        with symbols.env.running(str(func)), dispatch.enable_python_dispatcher():
            results = _MetaCall().wrap(rule(symbols, *args, **kwargs), fakes[0].device)
        mark_elements(func, args, kwargs, flat([results]))
        return results
    except NoSymbolicForm as error:
        raise DataDependentError(f"{reason}: {error}") from error


def flat(values: Iterable[Any]) -> list[Any]:
    """Return the values, with the items of lists in place of the lists."""
    return [part for v in values for part in (v if isinstance(v, (list, tuple)) else [v])]


def _without_kernel(func: Operator, error: RuntimeError) -> UnsupportedError | None:
    """Return the error to raise if an operator failed for lack of a meta kernel, else None.

    The message of an operator that `torch.library.custom_op` has made names the function that
    registers one.
    """
    if not isinstance(error, NotImplementedError) and "register_fake" not in str(error):
        return None
    is_users = func.namespace not in ("aten", "prims")
    return UnsupportedError(
        f"{func} has no meta kernel, so the form of its result is known only by running it",
        code="no-meta-kernel",
        fix=f'register one, with torch.library.register_fake("{func._schema.name}")'
        if is_users
        else None,
    )


def _run_on_meta(
    func: Operator, args: list[Any], kwargs: dict[str, Any], env: ShapeEnv | None
) -> Any:
    func = _WITHOUT_BITS.get(func, func)
    fresh = operator_facts(func).makes_fresh_tensors
    if env is not None:
        with env.running(str(func)), dispatch.enable_python_dispatcher():
            if fresh:
                return _run_cached(func, args, kwargs, env)
            check_arguments(func, args, kwargs)
            view = UNBACKED_VIEWS[func](*args, **kwargs) if func in UNBACKED_VIEWS else None
            return func(*args, **kwargs) if view is None else view
    if fresh:
        return _run_cached(func, args, kwargs, None)
    check_arguments(func, args, kwargs)
    return func(*args, **kwargs)


_WITHOUT_BITS: Final = {
    aten._conj.default: aten.alias.default,
    aten._neg_view.default: aten.alias.default,
}
"""Views that leave work for later readers: where there is no data, there is none to leave."""
_UNTOLD_VIEWS: Final = (aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default)
_RESULTS: dict[Any, Any] = {}
_MOST_RESULTS: Final = 20_000


def _run_cached(
    func: Operator, args: list[Any], kwargs: dict[str, Any], env: ShapeEnv | None
) -> Any:
    """Run a meta kernel, or repeat an earlier answer for the same metadata.

    Many meta kernels are Python and take 50-100 us; models repeat their layers. For symbolic sizes,
    an answer and its guards are valid in one environment.
    """
    results, version = _RESULTS, None
    if env is not None:
        results, version = env.results, env.knowledge.version
    try:
        key = (func, torch.get_default_dtype(), version, argument_key((args, kwargs), _form))
        known = results.get(key)
    except TypeError:  # an argument that cannot be hashed, such as a Generator of some builds
        return func(*args, **kwargs)
    if known is not None:
        return _thaw(known)
    result = _run_meta(func, args, kwargs)
    if func in _UNTOLD_VIEWS:  # they share the input's memory, at an offset
        return result
    if results is _RESULTS and len(results) >= _MOST_RESULTS:
        results.clear()
    results[key] = _freeze(result)
    return result


def _form(tensor: torch.Tensor) -> Any:
    return (tensor.dtype, *map(expr_of, tensor.size()), None, *map(expr_of, tensor.stride()))


def _run_meta(func: Operator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    check_arguments(func, args, kwargs)
    result = result_without_elements(func, args, kwargs)
    if result is not None:
        return result
    if func in FAKE_KERNELS:
        result = FAKE_KERNELS[func](*args, **kwargs)
    elif is_plain_pointwise(func):
        result = pointwise_result(func, args, kwargs)
    return func(*args, **kwargs) if result is None else result


def _freeze(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return _Shape(result.size(), _strides(result), result.dtype, result.layout)
    return map_items(result, _freeze)


def _thaw(frozen: Any) -> Any:
    if isinstance(frozen, _Shape) and frozen.layout is not torch.strided:
        return torch.empty(frozen.size, dtype=frozen.dtype, layout=frozen.layout, device=_META)
    if isinstance(frozen, _Shape):
        return meta_tensor(frozen.size, frozen.stride, frozen.dtype)
    return map_items(frozen, _thaw)


@dataclass(frozen=True, slots=True)
class _Shape:
    size: Sequence[Any]
    stride: Sequence[Any]
    dtype: torch.dtype
    layout: torch.layout


class _MetaCall:
    """The unwrapped arguments of one call, and the wrapping of its results."""

    __slots__ = ("fakes", "device", "env")

    def __init__(self) -> None:
        self.fakes: list[FakeTensor] = []
        self.device: torch.device | None = None
        self.env: ShapeEnv | None = None

    def unwrap(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (int, float, str)) or value is None:
            return value
        if isinstance(value, (list, tuple)):
            return [self.unwrap(item) for item in value]
        if isinstance(value, torch.device):
            return _META
        if isinstance(value, SYMBOLIC):
            self.env = value.node.shape_env
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        fake = tensor if isinstance(tensor, FakeTensor) else None
        device = tensor.device if fake is None else fake.fake_device
        # A zero-dimensional CPU tensor may meet tensors of any device: it does not decide.
        if self.device is None or (self.device.type == "cpu" and tensor.dim() > 0):
            self.device = device
        if fake is None:
            return tensor.detach().to(_META)
        if fake.meta.layout is not torch.strided:
            cause = "an operator takes a sparse tensor that the graph has made: a gradient, mostly"
            raise UnsupportedError(cause, code="tensor-layout")
        self.fakes.append(fake)
        if fake.is_symbolic and self.env is None:
            self.env = env_of((*fake.meta.size(), *fake.meta.stride()))
        return fake.meta

    def wrap(self, result: Any, device: torch.device) -> Any:
        if isinstance(result, torch.Tensor):
            for fake in self.fakes:
                if fake.meta is result:
                    return fake
            return FakeTensor(result, device)
        return map_items(result, lambda item: self.wrap(item, device))


def become(fake: FakeTensor, other: FakeTensor) -> None:
    """Give a fake tensor the sizes and the memory of another one, as ``out=`` does."""
    with DisableTorchDispatch():
        fake.data = other
    fake.meta = other.meta


def _refresh(fake: FakeTensor) -> None:
    """Give the wrapper the size and stride that an operator such as ``t_`` gave the meta tensor."""
    meta = fake.meta
    with dispatch.DisableTorchDispatch():
        aten.as_strided_.default(fake, meta.size(), meta.stride(), meta.storage_offset())
