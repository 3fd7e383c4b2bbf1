"""Programs of `torch.export` as ours, and ours as theirs: equal to eager, with sizes and writes."""

import copy
from types import SimpleNamespace

import pytest
import torch

import minitorch2
from minitorch2.errors import ExportError
from tests.unit.export.loaded_in_a_process import flat
from tests.unit.export.test_zoo import assert_same, exported
from tests.unit.export.zoo import BY_NAME, SIZES

FEW = ("mlp", "views", "related", "halves", "Training", "groups")
"""Of the zoo: constants, slices, related sizes, divided sizes, writes, and groups."""


@pytest.mark.parametrize("name", FEW)
def test_a_program_goes_to_torch_and_back(name):
    entry = BY_NAME[name]
    model, program = exported(name)
    theirs = program.to_torch()
    ours = minitorch2.export(theirs)
    reference = copy.deepcopy(model)
    modules = [copy.deepcopy(theirs).module(), copy.deepcopy(ours.module())]
    with torch.no_grad():
        for n in SIZES:
            if name == "views" and n == 2:
                continue  # `torch.export` serves no slice of one row
            args, kwargs = entry.args(n), entry.kwargs(n)
            expected = copy.deepcopy(flat(reference(*args, **kwargs)))
            for module in modules:
                assert_same(flat(module(*args, **kwargs)), expected)


def theirs_of_limits():
    size = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(
        torch.nn.Linear(4, 2), (torch.ones(6, 4),), dynamic_shapes={"input": {0: size}}
    )


def test_limits_of_sizes_come_along():
    program = minitorch2.export(theirs_of_limits())
    assert program(torch.ones(64, 4)).shape == (64, 2)
    with pytest.raises(ExportError, match=r"size size_\w+ is 65; the program serves .*2 .. 64"):
        program(torch.ones(65, 4))
    (limits,) = program.to_torch().range_constraints.values()
    assert (int(limits.lower), int(limits.upper)) == (2, 64)


def test_a_program_of_torch_without_an_example_is_refused():
    theirs = theirs_of_limits()
    theirs.example_inputs = None
    with pytest.raises(ExportError, match="no example inputs"):
        minitorch2.export(theirs)


def test_a_program_of_torch_with_an_input_that_is_no_tensor_is_refused():
    theirs = theirs_of_limits()
    token = SimpleNamespace(kind=SimpleNamespace(name="TOKEN"), target=None)
    theirs.graph_signature.input_specs.append(token)
    with pytest.raises(ExportError, match="an input of the kind TOKEN"):
        minitorch2.export(theirs)
