"""Idioms of libraries: decorators, settings, foreign annotations, attributes that are not there."""

import contextlib
import functools
import logging
import typing
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.script.syntax.errors import ScriptError

LOGGER = logging.getLogger(__name__)


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return 2 * function(*args)

    return wrapper


@doubled
def wrapped(x: Tensor):
    return x


class Wrapped(nn.Module):
    @doubled
    def forward(self, x: Tensor):
        return x


def calls_wrapped(x: Tensor):
    return wrapped(x) + 1


@pytest.mark.parametrize("program", [wrapped, Wrapped(), calls_wrapped])
def test_a_decorator_is_not_silently_left_out(program):
    with pytest.raises(ScriptError, match="a decorator wraps") as caught:
        jit.script(program)
    assert caught.value.code == "script-decorator"


@torch.no_grad()
def without_gradient(x: Tensor):
    return x * 2


class WithoutGradient(nn.Module):
    @torch.set_grad_enabled(False)
    def forward(self, x: Tensor):
        return without_gradient(x) + 1


@pytest.mark.parametrize("program", [without_gradient, WithoutGradient()])
def test_grad_modes_that_decorate_a_function_hold_in_its_script(program):
    script, x = jit.script(program), torch.ones(2, requires_grad=True)
    for _ in range(3):
        result = script(x)
        assert not result.requires_grad
        torch.testing.assert_close(result, program(x))
    assert (x + 1).requires_grad


def counted(function):
    """Decorate a function by a class of objects that can be called."""
    return functools.update_wrapper(functools.partial(function), function)


@contextlib.contextmanager
def region():
    yield


def product(x: Tensor):
    return torch.mm(x, x.sum(1, keepdim=True).expand(-1, x.shape[0]))


def noisy(x: Tensor):
    return x + torch.rand(2)


def gives(script, function) -> None:
    """Compare values, types and gradients of three calls; the second one runs the plan."""
    for _ in range(3):
        inputs = torch.arange(4.0).reshape(2, 2).requires_grad_()
        torch.manual_seed(0)
        expected = function(inputs)
        torch.manual_seed(0)
        result = script(inputs)
        torch.testing.assert_close(result, expected)
        assert result.requires_grad == expected.requires_grad
        assert result.is_inference() == expected.is_inference()


KEPT = {
    "no_grad": torch.no_grad(),
    "no_grad, bare": torch.no_grad,
    "enable_grad": torch.enable_grad(),
    "set_grad_enabled": lambda f: torch.set_grad_enabled(False)(f),  # it acts when it is made
    "inference_mode": torch.inference_mode(),
    "inference_mode, off": torch.inference_mode(False),
    "autocast": torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast, off": torch.autocast("cpu", enabled=False),
    "amp.autocast": torch.amp.autocast("cpu", dtype=torch.float16),
    "compile": torch.compile(backend="eager"),
    "compiler.disable": torch.compiler.disable,
    "wrap_torch_function": torch.overrides.wrap_torch_function(lambda x: (x,)),
    "no_type_check": typing.no_type_check,
    "final": typing.final,
    "staticmethod": lambda f: staticmethod(f).__func__,
    "two": lambda f: torch.autocast("cpu", dtype=torch.bfloat16)(torch.no_grad()(f)),
}


@pytest.mark.parametrize("decorate", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("function", [product, noisy])
def test_a_decorator_that_is_kept_means_what_it_means_in_python(decorate, function):
    decorated = decorate(function)
    gives(jit.script(decorated), decorated)

    def caller(x: Tensor):
        return decorated(x) + 1

    with torch.autocast("cpu", dtype=torch.bfloat16):
        gives(jit.script(caller), caller)


REFUSED = {
    "vmap": torch.func.vmap,
    "func.grad": torch.func.grad,
    "custom_fwd": torch.amp.custom_fwd(device_type="cpu"),
    "dual_level": torch.autograd.forward_ad.dual_level(),
    "multithreading": lambda f: torch.autograd.set_multithreading_enabled(False)(f),
    "once_differentiable": torch.autograd.function.once_differentiable,
    "fork_rng": torch.random.fork_rng(),
    "record_function": torch.autograd.profiler.record_function("a"),
    "cudnn.flags": torch.backends.cudnn.flags(enabled=False),
    "sdpa_kernel": torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "contextmanager": region(),
    "singledispatch": functools.singledispatch,
    "lru_cache": functools.lru_cache,
    "object": counted,
}


@pytest.mark.parametrize("decorate", REFUSED.values(), ids=REFUSED)
def test_a_decorator_that_is_not_kept_is_refused_where_it_is_called(decorate):
    decorated = decorate(product)

    def caller(x: Tensor):
        return decorated(x) + 1

    with pytest.raises(ScriptError) as caught:
        jit.script(caller)
    assert caught.value.code in ("script-decorator", "script-not-callable")
    assert "return decorated(x) + 1" in str(caught.value) and caught.value.fix
    with pytest.raises((ScriptError, TypeError), match=r"def product|got (partial|_lru_cache)"):
        jit.script(decorated)


def on_meta(x: Tensor):
    with torch.device("meta"):
        return x + torch.ones(2)


def test_a_mode_that_changes_functions_of_torch_is_refused():
    with pytest.raises(ScriptError, match="device changes what torch's functions do"):
        jit.script(on_meta)


class Settings:
    def __init__(self):
        self.adds, self.size = True, 3


class Sparse:
    """A class that the language does not know."""


class Library(nn.Module):
    """A module as libraries write them."""

    def __init__(self, normalizes: bool):
        super().__init__()
        self.settings = Settings()
        self.normalizes = normalizes
        if normalizes:
            self.norm = nn.LayerNorm(2)

    def norm_of(self, x):
        return self.norm(x)

    def forward(self, x: Tensor | Sparse, times: int) -> Tensor | Sparse:
        scale: Callable = torch.mul
        if isinstance(x, Sparse):
            return x
        if self.normalizes:
            for _ in range(times):
                x = self.norm(x)
        elif times > 7:
            LOGGER.warning("called %s times", times)
            return self.norm_of(x)
        if self.settings.adds:
            x = x + 1
        return scale(x, self.settings.size)


@pytest.mark.parametrize("normalizes", [True, False])
def test_settings_of_a_module_are_constants_that_are_watched(normalizes):
    model, x = Library(normalizes), torch.randn(3, 2)
    script = jit.script(model)
    for adds in (True, False, True):
        model.settings.adds = adds
        for times in (0, 1, 2):
            torch.testing.assert_close(script(x, times), model(x, times))


def test_an_attribute_that_is_not_there_raises_where_it_is_read():
    script = jit.script(Library(False))
    with pytest.raises(AttributeError, match="has no attribute norm"):
        script(torch.ones(1, 2), 8)


class Logging(nn.Module):
    def forward(self, x: Tensor, times: int):
        LOGGER.warning("called %s times", times)
        return x + times


def test_messages_of_loggers_are_written_when_the_graph_runs(caplog):
    script = jit.script(Logging())
    assert not caplog.messages
    for times in range(3):
        torch.testing.assert_close(script(torch.ones(2), times), torch.ones(2) + times)
    assert caplog.messages == [f"called {times} times" for times in range(3)]


class Aggregation(nn.Module):
    def aggregated(self, x: Sparse, by: int = 2) -> Tensor:
        return x * by

    def forward(self, x: Tensor):
        return self.aggregated(x) + self.aggregated(x, 3)


def test_a_foreign_annotation_gives_way_to_the_type_of_the_argument():
    model, x = Aggregation(), torch.ones(2)
    torch.testing.assert_close(jit.script(model)(x), model(x))


def test_an_attribute_that_is_read_on_every_way_must_be_there():
    class Broken(nn.Module):
        def forward(self, x: Tensor):
            return self.misspelt(x)

    with pytest.raises(ScriptError, match="has no attribute misspelt"):
        jit.script(Broken())


def prepared(function):
    """A function of torch that prepares its arguments in Python, in front of an operator."""
    PREPARED.append(function)
    return function


PREPARED: list[Callable[..., object]] = []
MATRIX = torch.linspace(-2, 3, 12).view(3, 4)
ROWS = torch.tensor([[1, 2, 5, 5], [3, 4, 5, 5], [1, 2, 5, 5]])


@prepared
def norm_of_rows(m: Tensor, rows: Tensor):
    return torch.norm(m, dim=1), torch.norm(m, "fro", dim=1), torch.norm(m, dim=0, keepdim=True)


@prepared
def nuclear_norm(m: Tensor, rows: Tensor):
    return torch.norm(m, "nuc", dim=[0, 1])


@prepared
def norm_by_its_operator(m: Tensor, rows: Tensor):
    return torch.norm(m), torch.norm(m, 1, 1), torch.norm(m, p=2, dim=[0, 1], keepdim=True)


@prepared
def tensordot_of_a_number(m: Tensor, rows: Tensor):
    return torch.tensordot(m, m.t(), dims=1), torch.tensordot(m, m), torch.tensordot(m, m, 0)


@prepared
def tensordot_of_lists(m: Tensor, rows: Tensor):
    turned = torch.tensordot(m, m, dims=[[1], [1]])
    return turned, torch.tensordot(m, m.t(), dims=([1], [0]))


@prepared
def tensordot_of_a_tensor(m: Tensor, rows: Tensor):
    return torch.tensordot(m, m.t(), dims=torch.tensor([[1], [0]]))


@prepared
def unique_rows(m: Tensor, rows: Tensor):
    return torch.unique(rows, dim=0), torch.unique(rows, True, True, True, 1)


@prepared
def counted_rows(m: Tensor, rows: Tensor):
    kept, counts = torch.unique(rows, dim=0, return_counts=True)
    return kept * counts.unsqueeze(1)


@pytest.mark.parametrize("function", PREPARED, ids=lambda function: function.__name__)
def test_functions_of_torch_take_what_they_prepare_in_python(function):
    """`torch.norm(m, dim=1)` was refused: the operator of its name has no such schema."""
    script, peer = jit.script(function), torch.jit.script(function)
    wanted = function(MATRIX, ROWS)
    for made in (script, peer):
        for _ in range(3):
            torch.testing.assert_close(made(MATRIX, ROWS), wanted, rtol=1e-5, atol=1e-5)


def test_what_neither_the_operator_nor_its_python_takes_is_refused_by_the_operator():
    def program(m: Tensor):
        return torch.norm(m, dim=m)

    with pytest.raises(ScriptError, match="aten::norm cannot be called with"):
        jit.script(program)
