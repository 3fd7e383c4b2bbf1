"""Guards that the user gives up, and those that he cannot."""

import pytest
import torch
from torch import nn

import minitorch2
from minitorch2 import guard_filters, stages
from minitorch2.errors import ConfigError
from tests.unit.bytecode.test_dispatch import frames_of

X = torch.ones(3)
FACTOR = 2


def reads_a_global(x, y):
    return x * FACTOR + y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.factor = nn.Linear(3, 3), 2.0

    def forward(self, x):
        return self.linear(x) * self.factor


def filtered(model, guard_filter):
    options = {"guard_filter_fn": guard_filter}
    return minitorch2.compile(model, backend="eager", options=options)


def kinds_of(model, guard_filter, *args):
    with stages.collect() as log:
        filtered(model, guard_filter)(*args)
    return log.texts("guards.py")[0]


def test_a_filter_sees_each_guard_with_its_line_and_layer():
    seen = []
    filtered(reads_a_global, lambda records: seen.extend(records) or [True] * len(records))(X, 1)
    by_name = {(record.guard_type, record.name): record for record in seen}
    factor = by_name["CONSTANT_MATCH", "FACTOR"]
    assert factor.is_global and not factor.is_module and factor.layer == "capture"
    assert factor.user_line is not None and "x * FACTOR" in factor.user_line.text
    assert not by_name["TENSOR_MATCH", "x"].is_global
    assert by_name["GRAD_MODE", ""].user_line is None


def test_globals_without_guards(monkeypatch):
    compiled = filtered(reads_a_global, guard_filters.skip_guards_on_globals)
    assert torch.equal(compiled(X, 1), X * 3)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert frames_of(compiled, (X, 1)) == 0, "the promise was broken, so the old answer comes"
    assert frames_of(compiled, (X, 2)) == 1, "arguments are guarded still"


def test_modules_without_guards():
    model = Model()
    compiled = filtered(model, guard_filters.skip_guards_on_modules)
    compiled(X)
    model.factor = 3.0
    assert frames_of(compiled, (X,)) == 0
    with torch.no_grad():
        assert frames_of(compiled, (X,)) == 1, "the grad mode is guarded still"


def test_only_memory_is_guarded_when_all_is_given_up():
    text = kinds_of(Model(), guard_filters.skip_all_guards, X)
    compiled = filtered(Model(), guard_filters.skip_all_guards)
    compiled(X)
    assert "is_grad_enabled" not in text and "_forward_hooks" not in text
    assert frames_of(compiled, (torch.ones(2, 3),)) == 1, "kernels never see other sizes"


def test_keeping_all_changes_nothing():
    plain = minitorch2.explain(reads_a_global, backend="eager")(X, 1).guards
    assert kinds_of(reads_a_global, guard_filters.keep_all, X, 1).count("FACTOR") >= 1
    assert len(plain) >= 3


def test_wrong_filters_are_refused():
    with pytest.raises(ConfigError, match="answered 1 times"):
        filtered(reads_a_global, lambda records: [True])(X, 1)
    with pytest.raises(ConfigError, match="takes a function"):
        minitorch2.compile(reads_a_global, options={"guard_filter_fn": 3})
