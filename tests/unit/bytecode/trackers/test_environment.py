"""The environment's variables are read while capturing, and guarded."""

import os

import torch

import minitorch2


def test_variables_of_the_environment_are_guarded(monkeypatch):
    """Attention of transformers asks for one at each call."""

    def program(x):
        if os.environ.get("MINITORCH2_TEST_SIGN", "+") == "-":
            return -x
        return x * 3 if "MINITORCH2_TEST_SCALE" in os.environ else x + 1

    x = torch.ones(2)
    compiled = minitorch2.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x + 1)
    monkeypatch.setenv("MINITORCH2_TEST_SIGN", "-")
    assert torch.equal(compiled(x), -x)
    monkeypatch.setenv("MINITORCH2_TEST_SIGN", "+")
    monkeypatch.setenv("MINITORCH2_TEST_SCALE", "3")
    assert torch.equal(compiled(x), x * 3)
