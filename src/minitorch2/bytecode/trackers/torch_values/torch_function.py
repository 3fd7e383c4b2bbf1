"""PyTorch's own functions: nodes of the graph, or answers known while capturing.

Three sorts. *Operators* (`torch.add`, `torch.nn.functional.gelu`, `torch.rand`, ...) become nodes.
*Queries* (`torch.is_grad_enabled`, `torch.finfo`, ...) have an answer now, which guards keep true.
Anything else is evaluated like user code if it is Python, or breaks the graph.
"""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F

from minitorch2 import config
from minitorch2.bytecode.guards.sources import AttributeSource
from minitorch2.bytecode.trackers.base import Arguments, Keywords, VariableTracker, unsupported
from minitorch2.bytecode.trackers.interfaces import Evaluator
from minitorch2.bytecode.trackers.known import KnownObjectVariable
from minitorch2.bytecode.trackers.observed import raise_as_observed
from minitorch2.bytecode.trackers.python_values.constant import (
    NONE,
    ConstantVariable,
    fold,
    literal,
)
from minitorch2.bytecode.trackers.python_values.sequence import ListVariable
from minitorch2.bytecode.trackers.rules import registers
from minitorch2.bytecode.trackers.torch_values.overriding import overridden
from minitorch2.bytecode.trackers.torch_values.symbolic import (
    RaggedSizeVariable,
    SymbolicNumberVariable,
    compute,
)
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.tensor_data import made_of_data
from minitorch2.errors import UnsupportedError
from minitorch2.foundation.module_names import is_in_package
from minitorch2.graph.runtime_checks import SuppositionError
from minitorch2.graph.symbols.conditions import opposite
from minitorch2.native.torch_internals import global_state
from minitorch2.native.torch_internals.functions import NN_FUNCTIONS, TENSOR_FUNCTIONS, infer_size
from minitorch2.native.torch_internals.gradients import is_multithreading_enabled
from minitorch2.native.torch_internals.modes import count_dispatch_modes, current_dispatch_modes
from minitorch2.native.torch_internals.nested import NestedTensor
from minitorch2.native.torch_internals.operators import OpOverload, OpOverloadPacket

Handler = Callable[..., VariableTracker]


def _public_functions(*modules: Any) -> set[Any]:
    """Return the functions of some namespaces that compute tensors."""
    found = set()
    for module in modules:
        for name in dir(module):
            value = getattr(module, name)
            if inspect.isroutine(value) and not name.startswith("__"):
                found.add(value)
    return found


NOT_OPERATORS: Final = {
    torch.seed,
    torch.manual_seed,
    torch.initial_seed,
    torch.get_rng_state,
    torch.set_rng_state,
    torch.from_file,
    torch.from_numpy,
    torch.frombuffer,
}
"""Functions in the operators' namespaces that have effects or share memory with Python objects."""

OPERATORS: Final = (
    _public_functions(
        TENSOR_FUNCTIONS, NN_FUNCTIONS, torch.functional, torch.special, torch.linalg, torch.fft
    )
    | {
        value
        for value in _public_functions(F)
        if getattr(value, "__module__", None) == F.__name__
        or isinstance(value, types.BuiltinFunctionType)
    }
    | {torch.tensor, torch.as_tensor, torch._assert_async}
    | _public_functions(torch.nested)
    | {NestedTensor.values, NestedTensor.offsets, NestedTensor.lengths}
) - NOT_OPERATORS
"""Functions that become nodes."""

QUERIES: Final = {
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch.get_autocast_gpu_dtype,
    torch.get_autocast_cpu_dtype,
    global_state.is_any_autocast_enabled,
    torch.get_default_dtype,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.get_num_threads,
    torch.accelerator.current_accelerator,
    torch.cuda.is_available,
    torch.cuda.device_count,
    torch.cuda.is_initialized,
    torch.backends.mps.is_available,
    torch.promote_types,
    torch.can_cast,
    torch.broadcast_shapes,
    infer_size,
    torch.amp.is_autocast_available,
    global_state.name_of_private_device,
    is_multithreading_enabled,
}
"""Functions of constants, or of PyTorch's state, that guards keep at their answer."""

ALWAYS: Final[dict[Any, object]] = {
    torch.compiler.is_compiling: True,
    torch.compiler.is_dynamo_compiling: True,
    torch.compiler.is_exporting: False,
    torch.compiler.cudagraph_mark_step_begin: None,
    global_state.tracing_state: None,
    global_state.is_tracing: False,
}
"""Questions with one answer inside captured code."""

_SCRIPTING: Final = {"is_tracing", "is_scripting", "is_tracing_or_scripting"}

HANDLERS: Final[dict[Any, Handler]] = {}
"""Functions with a rule of their own."""

handles: Final[Callable[..., Callable[[Handler], Handler]]] = registers(HANDLERS)
"""Register the rule of some functions: (evaluator, *args, **kwargs) -> outcome."""


def inlines(function: Any, body: Any) -> None:
    """Say that a call of `function` is a call of `body`, which is evaluated like user code."""

    @handles(function)
    def call(
        evaluator: Evaluator, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        return evaluator.capture.wrap(body, None).call(evaluator, args, kwargs)


INLINED: Final = frozenset({F.triplet_margin_with_distance_loss})
"""Functions that call a function they are given: they are captured as the Python they are."""


def is_torch_function(value: object) -> bool:
    """Return whether a callable is one of PyTorch's functions that this file knows."""
    try:
        if not callable(value) or value in INLINED:
            return False
        known = value in OPERATORS or value in QUERIES or value in ALWAYS or value in HANDLERS
    except TypeError:
        return False
    return known or isinstance(value, _OPERATOR_TYPES) or _is_scripting_query(value)


_OPERATOR_TYPES = (OpOverload, OpOverloadPacket)


def _is_scripting_query(value: object) -> bool:
    is_of_torch = is_in_package(getattr(value, "__module__", None), "torch")
    return is_of_torch and getattr(value, "__name__", "") in _SCRIPTING


class TorchVariable(KnownObjectVariable):
    """One of PyTorch's functions (slides: ``TorchVariable(value=torch.abs, source=...)``)."""

    def __repr__(self) -> str:
        return f"TorchVariable(value={self.value}, source={self.source})"

    def get_attribute(self, evaluator: Evaluator, name: str) -> VariableTracker:
        value = self.real_attribute(name)
        if isinstance(value, str | None.__class__):
            return literal(value)
        source = self.source or evaluator.capture.reference(self.value)
        return evaluator.capture.wrap(value, AttributeSource(source, name))

    def call(self, evaluator: Evaluator, args: Arguments, kwargs: Keywords) -> VariableTracker:
        value = self.value
        if isinstance(value, _OPERATOR_TYPES) or value in OPERATORS:  # may be overridden
            answer = overridden(evaluator, "call_function", value, args, kwargs)
            if answer is not None:
                return answer
        if value in HANDLERS:
            return HANDLERS[value](evaluator, *args, **kwargs)
        if value in ALWAYS:
            return literal(ALWAYS[value])
        if _is_scripting_query(value):
            return ConstantVariable(False)
        if value in QUERIES:
            return fold(value, args, kwargs)
        if _makes_leaf(value, kwargs):
            made = self.call(
                evaluator, args, {k: v for k, v in kwargs.items() if k != "requires_grad"}
            )
            return made.call_method(evaluator, "requires_grad_", [], {})
        result = evaluator.capture.call_in_graph(evaluator, "call_function", value, args, kwargs)
        result.guards |= self.guards
        return result


def _makes_leaf(function: Any, kwargs: Keywords) -> bool:
    """Return whether ``requires_grad=True`` is among the arguments of a factory."""
    wanted = kwargs.get("requires_grad")
    return wanted is not None and wanted.is_constant() and bool(wanted.as_constant())


@handles(torch.is_tensor)
def is_tensor(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``torch.is_tensor``"""
    return ConstantVariable(issubclass(value.python_type(), torch.Tensor))


@handles(torch.overrides.is_tensor_like)
def is_tensor_like(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``torch.overrides.is_tensor_like``"""
    return ConstantVariable(hasattr(value.python_type(), "__torch_function__"))


@handles(torch.is_storage)
def is_storage(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``torch.is_storage``"""
    return ConstantVariable(False)


@handles(torch.numel)
def numel(evaluator: Evaluator, input: VariableTracker) -> VariableTracker:
    """``torch.numel``"""
    return input.call_method(evaluator, "numel", [], {})


@handles(torch.is_floating_point)
def is_floating_point(evaluator: Evaluator, input: VariableTracker) -> VariableTracker:
    """``torch.is_floating_point``"""
    return input.call_method(evaluator, "is_floating_point", [], {})


@handles(torch.is_complex)
def is_complex(evaluator: Evaluator, input: VariableTracker) -> VariableTracker:
    """``torch.is_complex``"""
    return input.call_method(evaluator, "is_complex", [], {})


def _ask_method(function: Any) -> None:
    @handles(function)
    def ask(evaluator: Evaluator, input: VariableTracker) -> VariableTracker:
        return input.call_method(evaluator, function.__name__, [], {})


for _function in (
    torch.is_conj,
    torch.is_neg,
    torch.is_inference,
    torch.resolve_conj,
    torch.resolve_neg,
):
    _ask_method(_function)


@handles(current_dispatch_modes)
def dispatch_modes(evaluator: Evaluator) -> VariableTracker:
    """Return the active dispatch modes, whose number is guarded; `nn.MultiheadAttention` asks."""
    if count_dispatch_modes():
        unsupported("dispatch-modes", "code that looks at the active dispatch modes")
    return ListVariable([])


def _check_rule(function: Any, error: type[Exception]) -> None:
    @handles(function)
    def check(
        evaluator: Evaluator, condition: VariableTracker, message: VariableTracker = NONE
    ) -> VariableTracker:
        if isinstance(condition, TensorVariable):
            condition = ConstantVariable(suppose(evaluator, condition, True))
        return _stated(evaluator, condition, error, message)


for _check, _error in {
    torch._check: RuntimeError,
    torch._assert: AssertionError,
    torch._check_index: IndexError,
    torch._check_value: ValueError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}.items():
    _check_rule(_check, _error)


def _stated(
    evaluator: Evaluator,
    condition: VariableTracker,
    error: type[Exception] = RuntimeError,
    message: VariableTracker = NONE,
) -> VariableTracker:
    """Assume that a condition holds from now on; the graph checks it if only data will tell."""
    if isinstance(condition, SymbolicNumberVariable):
        env, stated = evaluator.capture.sizes.env, condition.number.node.condition()
        if not env.can_decide(stated):
            env.expect(stated, _message(evaluator, message), error.__name__)
            evaluator.capture.add_checks()
            return NONE
    if not condition.truth(evaluator):
        raise_as_observed(error(_message(evaluator, message)))
    return NONE


def suppose(evaluator: Evaluator, value: VariableTracker, truth: bool) -> bool:
    """Let the graph check the truth of a tensor or number; return that with which it goes on.

    It checks nothing that is known while capturing.

    Raises:
        UnsupportedError: the tensor has several elements, or the graph may not read data.
    """
    if isinstance(value, TensorVariable):
        if not config.current().capture_data_dependent or value.fake.numel() != 1:
            value.truth(evaluator)
        is_bool = value.fake.dtype is torch.bool
        asked = value if is_bool else value.call_method(evaluator, "ne", [ConstantVariable(0)], {})
        value = asked.call_method(evaluator, "item", [], {})
    env = evaluator.capture.sizes.env
    if not isinstance(value, SymbolicNumberVariable) or isinstance(value, RaggedSizeVariable):
        return value.truth(evaluator)
    stated = value.number.node.condition()
    if env.can_decide(stated):
        return value.truth(evaluator)
    line = evaluator.user_stack()[-1].line
    message = f"the program goes on behind line {line}"
    env.expect(stated if truth else opposite(stated), message, SuppositionError.__name__)
    evaluator.capture.add_checks()
    return truth


def _message(evaluator: Evaluator, message: VariableTracker) -> str:
    """Return the exception's message; empty if only Python can make the text, from data."""
    if message.is_constant() and message.as_constant() is None:
        return CHECK_FAILED
    try:
        text = message if message.is_constant() else message.call(evaluator, [], {})
        return str(text.as_constant())
    except UnsupportedError:
        return ""


CHECK_FAILED: Final = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, "
    "please report an enhancement request to PyTorch.)"
)
"""The message of ``torch._check`` without a message of the user's."""


@handles(torch._check_is_size)
def check_is_size(
    evaluator: Evaluator,
    number: VariableTracker,
    message: VariableTracker = NONE,
    *,
    max: VariableTracker = NONE,
) -> VariableTracker:
    """``torch._check_is_size(n, max=)``"""
    return _within(evaluator, number, ConstantVariable(0), max, message)


@handles(torch.sym_constrain_range, torch.sym_constrain_range_for_size, torch._constrain_as_size)
def constrain_range(
    evaluator: Evaluator,
    number: VariableTracker,
    min: VariableTracker = NONE,
    max: VariableTracker = NONE,
) -> VariableTracker:
    """``torch.sym_constrain_range(n, min=, max=)`` and its like for sizes."""
    return _within(evaluator, number, min, max)


def _within(
    evaluator: Evaluator,
    number: VariableTracker,
    low: VariableTracker,
    high: VariableTracker,
    message: VariableTracker = NONE,
) -> VariableTracker:
    for function, limit in ((operator.ge, low), (operator.le, high)):
        if not (limit.is_constant() and limit.as_constant() is None):
            holds = compute(function, number, limit) or fold(function, [number, limit])
            _stated(evaluator, holds, RuntimeError, message)
    return NONE


@handles(torch.sym_int, torch.sym_float)
def symbolic_number(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``torch.sym_int`` and its like return numbers as they are."""
    return compute(torch.sym_int, value) or fold(torch.sym_int, [value])


@handles(torch.sym_max)
def symbolic_max(evaluator: Evaluator, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """``torch.sym_max``"""
    return compute(torch.sym_max, a, b) or fold(max, [a, b])


@handles(torch.sym_min)
def symbolic_min(evaluator: Evaluator, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """``torch.sym_min``"""
    return compute(torch.sym_min, a, b) or fold(min, [a, b])


@handles(torch.sym_not)
def symbolic_not(evaluator: Evaluator, value: VariableTracker) -> VariableTracker:
    """``torch.sym_not``"""
    return ConstantVariable(not value.truth(evaluator))


@handles(torch.tensor)
def tensor(
    evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.tensor(data)``: a copy."""
    if isinstance(data, TensorVariable):
        data = data.call_method(evaluator, "detach", [], {})
        return data.call_method(evaluator, "clone", [], {}).call_method(evaluator, "to", [], kwargs)
    wanted = kwargs.pop("requires_grad", None)
    made = made_of_data(evaluator, data, kwargs)
    return made if wanted is None else made.call_method(evaluator, "requires_grad_", [wanted], {})


@handles(torch.as_tensor, torch.asarray)
def as_tensor(
    evaluator: Evaluator, data: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``torch.as_tensor(data)``: a tensor is taken as it is, constants are copied."""
    if isinstance(data, TensorVariable):
        return data.call_method(evaluator, "to", [], kwargs) if kwargs else data
    return made_of_data(evaluator, data, kwargs)
