"""Each layer runs alone: `python -m minitorch2.<layer>` prints an example of what it does."""

import runpy

import pytest

SHOWN = {
    "graph": "call_function  truediv",
    "bytecode": "POP_JUMP_IF_FALSE",
    "autograd": "joint graph",
    "loopir": "ops.log",
    "codegen": "fused_sin_cos_0",
}


@pytest.mark.parametrize("layer", SHOWN)
def test_layer_prints_its_example(layer: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_module(f"minitorch2.{layer}", run_name="__main__")
    assert SHOWN[layer] in capsys.readouterr().out


def test_the_bytecode_example_has_the_slides_three_graphs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_module("minitorch2.bytecode", run_name="__main__")
    assert capsys.readouterr().out.endswith("graphs: 3\n")
