"""Reasons that have to do with `torch.nn.Module`."""

import torch

from tests.unit.bytecode.break_examples import X, breaks, whole

LINEAR = torch.nn.Linear(3, 3)


@breaks("module-write", X, torch.nn.Sequential(LINEAR))
def replaces_a_layer(x, model):
    model.first = torch.nn.ReLU()
    return model(x)


@breaks("parameter-write", X, torch.nn.Linear(3, 3))
def replaces_a_parameter(x, model):
    model.weight = torch.nn.Parameter(torch.ones(3, 3))
    return model(x)


@whole("parameter-write", X, torch.nn.Linear(3, 3))
def writes_a_parameter(x, model):
    with torch.no_grad():
        model.weight.copy_(torch.ones(3, 3))
    return model(x)


@breaks("script-module", X, torch.jit.script(torch.nn.Linear(3, 3)))
def scripted(x, model):
    return model(x) + 1


@whole("script-module", X, LINEAR)
def not_scripted(x, model):
    return model(x) + 1


COMPILED = torch.nn.Linear(3, 3)
COMPILED._compiled_call_impl = COMPILED._call_impl  # what COMPILED.compile() sets


@breaks("compiled-module", X, COMPILED)
def module_compiled_by_torch(x, module):
    return module(x)


@whole("compiled-module", X, torch.nn.Linear(3, 3))
def module_as_it_was(x, module):
    return module(x)
