"""The programs of Table 1: a model and a way to use it.

program ::= architecture, training     in training mode, with labels; gradients
         |  architecture, inference    without labels and gradients
         |  architecture, decoding     one more token, given a cache of keys and values
         |  torch.nn module            in training mode; gradients
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.zoo.architectures import ARCHITECTURES, BATCH, Architecture, Inputs, tokens
from benchmarks.zoo.modules import MODULES, Module

TARGETS = ("labels", "start_positions", "end_positions", "return_loss")
TRAINING, INFERENCE, DECODING, MODULE = "training", "inference", "decoding", "torch.nn"
SUITES = (TRAINING, INFERENCE, DECODING, MODULE)

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Program:
    """A model and what it is called with.

    `make` draws random weights, `inputs` random arguments (for which it may run the model).
    """

    name: str
    suite: str
    make: Callable[[], nn.Module]
    inputs: Callable[[nn.Module], Arguments]

    @property
    def trains(self) -> bool:
        """Whether gradients of the parameters are computed."""
        return self.suite in (TRAINING, MODULE)

    def build(self) -> nn.Module:
        """The model; the same weights each time."""
        torch.manual_seed(0)
        model = self.make().train(self.trains)
        if any(map(nn.parameter.is_lazy, model.parameters())):
            args, kwargs = self.inputs(model)
            model(*args, **kwargs)
        return model

    def draw(self, model: nn.Module, seed: int) -> Arguments:
        """The positional and keyword arguments that belong to a seed."""
        torch.manual_seed(seed)
        with torch.no_grad():
            return self.inputs(model)


def programs() -> list[Program]:
    """All of them."""
    found = [program for each in ARCHITECTURES for program in of_architecture(each)]
    return [*found, *map(of_module, MODULES)]


def of_architecture(architecture: Architecture) -> Iterator[Program]:
    ways = [(TRAINING, training), (INFERENCE, inference), (DECODING, decoding)]
    for suite, inputs in ways[: 3 if architecture.decodes else 2]:
        name = f"{architecture.head}, {suite}"
        yield Program(name, suite, architecture.make, lambda m, f=inputs: ((), f(architecture, m)))


def of_module(module: Module) -> Program:
    return Program(module.name, MODULE, module.make, lambda model: (module.draw(), {}))


def training(architecture: Architecture, model: nn.Module) -> Inputs:
    return architecture.inputs()


def inference(architecture: Architecture, model: nn.Module) -> Inputs:
    inputs = {k: v for k, v in architecture.inputs().items() if k not in TARGETS}
    return {**inputs, "decoder_input_ids": tokens(8)} if is_seq2seq(model) else inputs


def decoding(architecture: Architecture, model: nn.Module) -> Inputs:
    """What generation gives to a model at each token but the first."""
    inputs = inference(architecture, model)
    outputs = model(**inputs, use_cache=True)
    inputs["past_key_values"] = outputs.past_key_values
    if is_seq2seq(model):
        encoded = (outputs.encoder_last_hidden_state,)
        return {**inputs, "decoder_input_ids": tokens(1), "encoder_outputs": encoded}
    if "attention_mask" in inputs:
        seen = torch.ones(BATCH, 1, dtype=torch.long)
        inputs["attention_mask"] = torch.cat([inputs["attention_mask"], seen], dim=1)
    return {**inputs, "input_ids": tokens(1)}


def is_seq2seq(model: nn.Module) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
