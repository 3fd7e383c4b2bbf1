"""The triton backend where Triton kernels cannot run: one warning, another backend."""

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.backends import triton as backend  # noqa: F401  (imported before it is patched)
from minitorch2.codegen.triton import availability
from minitorch2.errors import MinitorchWarning, cautions

X = torch.tensor([1.0, -2.0, 3.0])
WITHOUT = {
    "need a CUDA device": ("is_interpreting", lambda: False),
    "Triton is not installed": ("_has_triton", lambda: False),
}


@pytest.fixture
def without(monkeypatch):
    """`without(what)`: something that Triton kernels need is missing."""
    cautions.caution_once.cache_clear()
    return lambda what: monkeypatch.setattr(availability, *WITHOUT[what])


@pytest.mark.parametrize("what", WITHOUT)
def test_numba_serves_cpu_tensors_and_one_warning_says_so(without, what, caplog):
    """Without the interpreter Numba was used in silence; without Triton a BackendError came."""
    without(what)
    x = X.clone().requires_grad_()
    with stages.collect() as log, pytest.warns(MinitorchWarning) as found:
        compiled = [minitorch2.compile(f, backend="triton") for f in (torch.sin, torch.cos)]
        for fast in compiled:
            fast(x).sum().backward()
    torch.testing.assert_close(x.grad, X.cos() - X.sin())
    (warning,) = found
    assert what in str(warning.message) and "Numba kernels are used instead" in str(warning.message)
    assert warning.filename == __file__
    assert sum(what in message for message in caplog.messages) == 1
    assert log.counts["triton_unavailable"] == 2
    assert log.counts["graph_breaks"] == log.counts["frames_as_is"] == 0
    assert all("@triton.jit" not in text for text in log.texts("wrapper.py"))
    assert len(log.texts("wrapper.py")) == 4


def test_other_devices_run_as_they_are(without):
    without("Triton is not installed")
    with pytest.warns(MinitorchWarning, match="PyTorch's own kernels are used instead"):
        result = minitorch2.compile(lambda x: x + 1, backend="triton")(X.to("meta"))
    assert result.device.type == "meta"


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels run on the GPU")
def test_the_interpreter_runs_triton_kernels_on_the_cpu(recwarn):
    cautions.caution_once.cache_clear()
    with stages.collect() as log:
        result = minitorch2.compile(lambda x: x.sin() + 1, backend="triton")(X)
    torch.testing.assert_close(result, X.sin() + 1)
    assert "@triton.jit" in log.texts("wrapper.py")[0]
    assert not log.counts["triton_unavailable"] and not list(recwarn)
