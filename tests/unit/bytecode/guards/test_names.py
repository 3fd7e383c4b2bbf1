"""Names of the user's that the texts of guards use for themselves."""

import pytest
import torch

from minitorch2 import stages
from tests.unit.bytecode.capturing import capture

X = torch.arange(3.0)


@pytest.mark.parametrize("name", ["guard", "make"])
def test_a_global_has_the_name_of_the_guards_function(name):
    """The text that explains a failed guard took the global for its own function: KeyError."""
    scope = {name: torch}
    exec(f"def f(x):\n    return {name}.sin(x)", scope)
    compiled = capture(scope["f"])
    with stages.collect() as log:
        for x in (X, X.double(), X):
            assert torch.equal(compiled(x), x.sin())
    assert log.counts["frames"] == 2


@pytest.mark.parametrize("name", ["guard", "make"])
def test_a_closure_and_an_argument_have_it(name):
    scope = {}
    exec(f"outer = lambda {name}: lambda x: {name} * x\nf = lambda {name}: {name} + 1", scope)
    for function in (scope["outer"](2.0), scope["f"]):
        compiled = capture(function)
        for x in (X, X.double(), X):
            assert torch.equal(compiled(x), function(x))
