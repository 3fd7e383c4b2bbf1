"""The registry: names, tags, errors, entry points, and callables as backends."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

from minitorch2.backends import (
    default_backend,
    list_backends,
    lookup_backend,
    register_backend,
    registry,
)
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.errors import BackendError
from minitorch2.graph.fake_tensor import FakeTensor
from tests.unit.codegen.aten_graph import record


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    saved = dict(registry.BACKENDS)
    yield
    registry.BACKENDS.clear()
    registry.BACKENDS.update(saved)


def test_built_in_names() -> None:
    assert {"numba", "triton"} <= set(list_backends())
    assert {"eager", "aot_eager"} <= set(list_backends(exclude_tags=()))
    assert not {"eager", "aot_eager"} & set(list_backends())


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(BackendError, match="did you mean 'numba'") as found:
        lookup_backend("nunba")
    assert found.value.code == "unknown-backend" and "aot_eager" in (found.value.fix or "")


def test_registering_by_decorator() -> None:
    @register_backend
    def first(gm: Any, example_inputs: Any) -> Any:
        return gm

    @register_backend("second", tags=("experimental",))
    def other(gm: Any, example_inputs: Any) -> Any:
        return gm

    assert lookup_backend("first") is first and lookup_backend("second") is other
    assert "first" in list_backends() and "second" not in list_backends()


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(BackendError, match="already"):
        register_backend("eager")(lambda gm, example_inputs: gm)


def test_a_callable_is_a_backend() -> None:
    def backend(gm: Any, example_inputs: Any) -> Any:
        return gm

    assert lookup_backend(backend) is backend


def test_entry_points_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "operator:neg", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"theirs": point})
    assert "theirs" in list_backends()
    assert callable(lookup_backend("theirs"))


def test_a_backend_that_cannot_be_imported_says_so() -> None:
    registry.BACKENDS["broken"] = registry.Entry("minitorch2_no_such_module:backend")
    with pytest.raises(BackendError, match="cannot be imported") as found:
        lookup_backend("broken")
    assert found.value.code == "backend-not-available"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_backend_that_fits_is_that_of_all_tensors_of_a_graph(device: str) -> None:
    """A program may make its tensors on a GPU without having been given one."""
    made = FakeTensor(torch.empty(3, device="meta"), torch.device(device))
    gm = record(lambda x: (x + 1,), made)
    assert default_backend(gm, []) == ("triton" if device == "cuda" else "numba")


def test_a_kernel_for_the_cpu_refuses_memory_of_a_gpu() -> None:
    on_gpu = FakeTensor(torch.empty(3, device="meta"), torch.device("cuda", 0))
    with pytest.raises(BackendError, match="cannot compute on cuda:0") as found:
        compile_graph(record(lambda x: (x + 1,), on_gpu), ())
    assert found.value.code == "wrong-device"
