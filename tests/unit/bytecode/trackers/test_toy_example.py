"""The worked example of the author's slides: trackers, graph and guards after each step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from minitorch2.bytecode.evaluation import handlers
from minitorch2.bytecode.evaluation.capture import FrameCapture
from minitorch2.bytecode.evaluation.frame_evaluator import FrameEvaluator
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.frame import Frame
from minitorch2.bytecode.trackers.python_values.constant import ConstantVariable
from minitorch2.bytecode.trackers.python_values.python_module import PythonModuleVariable
from minitorch2.bytecode.trackers.torch_values.tensor import TensorVariable
from minitorch2.bytecode.trackers.torch_values.torch_function import TorchVariable
from minitorch2.errors import UnsupportedError

assert handlers.__all__, "importing the handlers registers them"


def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


@pytest.fixture
def evaluator() -> FrameEvaluator:
    frame = Frame(toy_example, {"a": torch.randn(10), "b": torch.randn(10)})  # type: ignore[arg-type]
    return FrameEvaluator(FrameCapture(frame), {})


def run_until(evaluator: FrameEvaluator, wanted: Callable[[VariableTracker], bool]) -> None:
    """Evaluate until something wanted is on top of the stack."""
    for _ in range(60):
        evaluator.step()
        if evaluator.stack and wanted(evaluator.stack[-1]):
            return
    pytest.fail("never seen on the stack")


def guards_of(tracker: VariableTracker) -> set[str]:
    return {str(guard) for guard in tracker.guards}


def node_name(tracker: VariableTracker) -> str:
    return tracker.node.name if isinstance(tracker, TensorVariable) else ""


def test_arguments_and_globals(evaluator: FrameEvaluator) -> None:
    run_until(evaluator, lambda top: isinstance(top, PythonModuleVariable))
    a, top = evaluator.stack[0], evaluator.stack[-1]
    assert node_name(a) == "a" and guards_of(a) == {"TENSOR_MATCH a"}
    assert str(a.source) == "a"
    assert guards_of(top) == {"FUNCTION_MATCH torch"} and str(top.source) == "torch"


def test_torch_function(evaluator: FrameEvaluator) -> None:
    run_until(evaluator, lambda top: isinstance(top, TorchVariable))
    function = evaluator.stack[-1]
    assert isinstance(function, TorchVariable) and function.value is torch.abs
    assert str(function.source) == "torch.abs"
    assert guards_of(function) == {"FUNCTION_MATCH torch"}


def test_guards_are_united_by_operations(evaluator: FrameEvaluator) -> None:
    run_until(evaluator, lambda top: node_name(top) == "abs_1")
    both = {"TENSOR_MATCH a", "FUNCTION_MATCH torch"}
    assert guards_of(evaluator.stack[-1]) == both
    run_until(evaluator, lambda top: isinstance(top, ConstantVariable))
    assert evaluator.stack[-1].as_constant() == 1
    run_until(evaluator, lambda top: node_name(top) == "add")
    run_until(evaluator, lambda top: node_name(top) == "truediv")
    assert guards_of(evaluator.stack[-1]) == both
    evaluator.step()
    assert node_name(evaluator.locals["x"]) == "truediv"


def test_the_branch_ends_the_graph(evaluator: FrameEvaluator) -> None:
    with pytest.raises(UnsupportedError) as caught:
        for _ in range(60):
            evaluator.step()
    assert caught.value.code == "data-dependent-branch"
    names = [node.name for node in evaluator.capture.graph.nodes]
    assert names == ["a", "b", "abs_1", "add", "truediv", "sum_1", "lt"]
    expected = ["TENSOR_MATCH a", "FUNCTION_MATCH torch", "FUNCTION_MATCH torch.abs"]
    expected += ["TENSOR_MATCH b", "FUNCTION_MATCH __Tensor.sum"]
    assert [str(guard) for guard in evaluator.capture.guards] == expected
