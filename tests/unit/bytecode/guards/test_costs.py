"""What guards cost is measured, and small."""

import logging

import torch
from torch import nn

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.dispatch import dispatcher_of
from minitorch2.native.cpython.guard_machine import Op
from minitorch2.native.torch_internals.tensor_layout import tensor_layout
from tests.unit.bytecode.capturing import capture

X = torch.ones(3)


def test_explain_and_the_log_say_what_guards_cost(caplog):
    with caplog.at_level(logging.INFO, logger="minitorch2"):
        explained = minitorch2.explain(lambda x: x + 1, backend="eager")(X)
    assert len(explained.guard_microseconds) == 1
    assert 0 < explained.guard_microseconds[0] < 1000
    assert "microseconds" in str(explained)
    assert any("guards of" in message and "us a call" in message for message in caplog.messages)


def test_guards_of_a_model_run_on_the_machine_without_python():
    """All but a few: each guard that the machine cannot check costs a call of a Python function."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    with stages.collect() as log, torch.no_grad():
        compiled = capture(lambda x: model(x))
        compiled(torch.randn(2, 3, 8))
    assert log.counts["graphs"] == 1
    dispatcher = dispatcher_of(compiled)
    assert dispatcher is not None
    (entry,) = dispatcher.cache.compiled
    in_python = [g for g in entry.guards.guards if any(c.op is Op.PYTHON for c in g.checks())]
    assert len(in_python) <= len(entry.guards.guards) // 20
    assert not any(guard.kind == "TENSOR_MATCH" for guard in in_python)


def test_this_version_of_pytorch_keeps_metadata_where_it_was_found():
    layout = tensor_layout()
    assert layout is not None
    assert layout.agrees(torch.randn(3, 4, 5).transpose(0, 2))


def test_guards_know_their_layer():
    capture(lambda x: x + 1)(X)
    guards = minitorch2.explain(lambda x: x + 1, backend="eager")(X).guards
    assert {guard.layer for guard in guards} == {"capture"}
