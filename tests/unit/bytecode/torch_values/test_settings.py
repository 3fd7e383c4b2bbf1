"""Settings of PyTorch that a compiled function changes: one graph, and they are left as in eager."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

import minitorch2
from minitorch2 import config, stages


@pytest.fixture(autouse=True)
def flags_may_be_assigned(monkeypatch):
    """PyTorch's own test tools forbid it, for the whole process, when they are imported."""
    namespace = torch.backends.flags_frozen.__globals__
    monkeypatch.setitem(namespace, "__allow_nonbracketed_mutation_flag", True)


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def dtype_of_factories(x):
    with default_dtype(torch.float64):
        made = torch.zeros(2) + 1.5, torch.rand(4), torch.tensor([1.0, 2]), torch.tensor([1j])
        more = torch.arange(3.0), torch.linspace(0, 1, 3), torch.eye(2), torch.tensor(3)
        sizes = torch.ones(x.shape[0]) / x.shape[1]
    return *made, *more, sizes, torch.ones(2), x * torch.tensor(2.0)


def dtype_of_integers(x):
    i = torch.arange(1, 5)
    with default_dtype(torch.float64):
        computed = i / 2, i.sqrt(), i * 1.5, torch.div(i, i), torch.atan2(i, i), i + 1
        written = i.float(), i.to(torch.float32), i.mean(dtype=torch.float32), i.to(x.dtype) * 0.1
    return *computed, *written, i / 2, x * 1.5


def dtype_is_left(x):
    torch.set_default_dtype(torch.float64)
    return torch.ones(2), x * 2, torch.get_default_dtype() is torch.float64


def dtype_of_distributions(x):
    with default_dtype(torch.float64):
        return torch.distributions.Normal(0.0, 1.0).sample((2,)), x * 1


def one_backend(x):
    q = x.reshape(1, 1, 3, 4)
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q)


def several_backends(x):
    q = x.reshape(1, 1, 3, 4)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        inside = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        with sdpa_kernel(backends=[SDPBackend.MATH]):
            inside = inside + F.scaled_dot_product_attention(q, q, q)
        asked = torch.backends.cuda.flash_sdp_enabled()
    return inside + F.scaled_dot_product_attention(q, q, q), asked


@sdpa_kernel(SDPBackend.MATH)
def attend(q):
    return F.scaled_dot_product_attention(q, q, q)


def decorated(x):
    return attend(x.reshape(1, 1, 3, 4))


def flags_of_backends(x):
    with torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False):
        inside = x @ x.T
    with torch.backends.cudnn.flags(enabled=False, benchmark=True, deterministic=True):
        return inside + x @ x.T


def flags_are_left(x):
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.mkldnn.enabled = False
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    return x * 2


@torch.profiler.record_function("name")
def named(x):
    return x * 2


def names_for_the_profiler(x):
    @torch.profiler.record_function("inner")
    def inner(t):
        return t + 1

    return inner(named(x))


def autocast_is_switched(x):
    before = torch.is_autocast_enabled("cpu")
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_enabled("cpu", True)
    inside = x @ x.T
    torch.set_autocast_enabled("cpu", before)
    return inside.dtype is torch.float16, inside.float(), x @ x.T


def autocast_is_left(x):
    torch.set_autocast_enabled("cpu", True)
    return (x @ x.T).float()


def precision_of_products(x):
    torch.set_float32_matmul_precision("high")
    return x @ x.T, torch.get_float32_matmul_precision() == "high"


READERS = (
    torch.get_float32_matmul_precision,
    lambda: (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
    torch.get_default_dtype,
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
    torch._C._get_sdp_priority_order,
    torch._C._get_mkldnn_enabled,
    torch._C._get_cudnn_benchmark,
    torch.is_grad_enabled,
)


def restore():
    torch.set_float32_matmul_precision("highest")
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_default_dtype(torch.float32)
    torch.backends.cuda.enable_flash_sdp(True)
    torch.backends.mkldnn.enabled = True
    torch.backends.cudnn.benchmark = False


def outcome(function):
    """Results, gradients and settings of two calls."""
    found = []
    try:
        for _ in range(2):
            torch.manual_seed(0)
            x = torch.arange(12.0, dtype=torch.float32).reshape(3, 4).requires_grad_()
            results = function(x)
            results = results if isinstance(results, tuple) else (results,)
            settings = [str(read()) for read in READERS]
            loss = sum(r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad)
            found += [results, settings, torch.autograd.grad(loss, x)]
            restore()
    finally:
        restore()
    return found


PROGRAMS = [
    dtype_of_factories,
    dtype_of_integers,
    dtype_is_left,
    dtype_of_distributions,
    one_backend,
    several_backends,
    decorated,
    flags_of_backends,
    flags_are_left,
    names_for_the_profiler,
    autocast_is_switched,
    autocast_is_left,
    precision_of_products,
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_and_the_same_settings(program, dynamic):
    expected = outcome(program)
    with stages.collect() as log:
        compiled = minitorch2.compile(program, fullgraph=True, dynamic=dynamic)
        actual = outcome(compiled)
    assert log.counts["graphs"] == 1
    assert repr(actual[1]) == repr(expected[1])
    assert_close([actual[0], actual[2]], [expected[0], expected[2]], rtol=1e-4, atol=1e-4)
    assert [str(each) for each in actual[4]] == [str(each) for each in expected[4]]


def test_a_setting_that_is_asked_for_is_guarded():
    """A flag of a backend was once a constant, whatever it was at the next call."""

    def function(x):
        return x * (2 if torch.backends.mkldnn.enabled else 3)

    compiled = minitorch2.compile(function, fullgraph=True, backend="eager")
    try:
        assert compiled(torch.ones(())) == 2
        torch.backends.mkldnn.enabled = False
        assert compiled(torch.ones(())) == 3
    finally:
        restore()


def test_the_current_gpu_is_guarded_where_there_are_several(monkeypatch):
    """``device="cuda"`` names another device then, in a graph without any other tensor, too."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with stages.collect() as log:
        fast = minitorch2.compile(lambda x: x + 1, backend="eager")
        for current in (0, 0, 1):
            monkeypatch.setattr(torch.cuda, "current_device", lambda number=current: number)
            fast(torch.ones(2))
    assert log.counts["graphs"] == 2


@pytest.mark.parametrize("backend", ["eager", "numba"])
def test_settings_after_an_error_and_across_a_break(backend):
    def raises(x):
        torch.set_default_dtype(torch.float64)
        torch.backends.cuda.enable_flash_sdp(False)
        return torch.linalg.inv(x * 0)

    def breaks(x):
        torch.set_default_dtype(torch.float64)
        first = torch.ones(2)
        print(end="")
        second = torch.ones(2)
        torch.set_default_dtype(torch.float32)
        return first, second, torch.ones(2), x * 2

    def call(function):
        try:
            return function(torch.ones(3, 3)), [str(read()) for read in READERS]
        except RuntimeError as error:
            return type(error), [str(read()) for read in READERS]
        finally:
            restore()

    with config.patch(suppress_errors=False):
        for function in (raises, breaks):
            actual = call(minitorch2.compile(function, backend=backend))
            assert repr(actual) == repr(call(function))


def test_a_known_truth_of_a_tensor_is_not_supposed():
    """A branch on a tensor that is known, one side of which raises, once was an internal error."""

    def function(x):
        with default_dtype(torch.float64):
            if not torch.tensor(1.0) > 0:
                raise ValueError
        return x * 2

    compiled = minitorch2.compile(function, fullgraph=True, backend="eager")
    assert_close(compiled(torch.ones(2)), function(torch.ones(2)))


def test_a_tensor_of_inference_mode_is_not_written_to_outside():
    """A graph behind the block once wrote to the tensor, where eager raises."""

    def function(x):
        with torch.inference_mode():
            y = x * 2
            y.add_(1)
        return y[0].add_(1)

    for each in (function, minitorch2.compile(function, backend="eager")):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            each(torch.ones(2))
