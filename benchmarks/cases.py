"""One thing to measure: a function or module, and fresh random inputs for it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A measured function.

    `make` returns the function or module (a fresh one each time it is called, from a fixed seed);
    `inputs` returns fresh random inputs; with `backward` the gradients of all floating inputs and
    parameters are computed and compared too. `draws`: it uses random numbers.
    """

    name: str
    make: Callable[[], Function]
    inputs: Callable[[], tuple[Tensor, ...]]
    backward: bool = False
    draws: bool = False

    def build(self, compiler: Callable[[Function], Function]) -> Function:
        """The compiled function, from inputs to outputs (and gradients)."""
        torch.manual_seed(0)
        function = self.make()
        compiled = compiler(function)
        if not self.backward:
            return compiled
        parameters = _trained(function) if isinstance(function, torch.nn.Module) else []
        return with_gradients(compiled, parameters)

    def fresh_inputs(self) -> tuple[Tensor, ...]:
        """Random inputs; those that gradients are asked of say so."""
        inputs = self.inputs()
        for tensor in inputs if self.backward else ():
            tensor.requires_grad_(tensor.is_floating_point())
        return inputs


def _trained(module: torch.nn.Module) -> list[Tensor]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def with_gradients(function: Function, parameters: list[Tensor]) -> Function:
    """A function of the inputs that gives the output and all gradients.

    The gradient that flows in is random, but the same in each call: no loss is computed, so that
    nothing but the function itself is timed. It has few digits, so that each dtype holds them all.
    """

    @functools.cache
    def incoming(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float32)
        return drawn.bfloat16().to(device, dtype)

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        output = function(*inputs)
        wanted = [*parameters, *(tensor for tensor in inputs if tensor.requires_grad)]
        flowing = incoming(output.shape, output.dtype, output.device)
        gradients = torch.autograd.grad(output, wanted, flowing, allow_unused=True)
        return output, *(gradient for gradient in gradients if gradient is not None)

    return run


TOLERANCES = {torch.bfloat16: (2e-2, 2e-2)}
"""(relative, absolute) for dtypes of fewer digits than float32."""


def same(got: Any, expected: Any) -> bool:
    """Whether results agree as two computations in another order, or rounded elsewhere, do."""
    if not isinstance(expected, Tensor):
        return len(got) == len(expected) and all(map(same, got, expected))
    relative, absolute = TOLERANCES.get(expected.dtype, (1e-3, 1e-4))
    try:
        torch.testing.assert_close(got, expected, rtol=relative, atol=absolute)
    except AssertionError:
        return False
    return True


def near(got: Any, expected: Any) -> bool:
    """Whether each tensor of results is near in the norm: where eager rounds in another order, a
    ReLU of a model may switch, and a gradient behind it jumps in a few elements.
    """
    if not isinstance(expected, Tensor):
        return len(got) == len(expected) and all(map(near, got, expected))
    distance, size = (t.double().norm() for t in (got - expected, expected))
    return bool(distance <= 1e-2 * size + 1e-4)
