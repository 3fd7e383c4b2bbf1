"""Hooks of modules, futures of modules, and classes that only name methods."""

import io

import pytest
import torch
from torch import Tensor, nn

from minitorch2 import jit
from minitorch2.script.syntax.errors import ScriptError


def doubled(self, given: tuple[Tensor]) -> tuple[Tensor]:
    return (given[0] * 2,)


def shifted(self, given: tuple[Tensor]) -> Tensor:
    return given[0] + 1


def plus_input(self, given: tuple[Tensor], result: Tensor) -> Tensor:
    return result + given[0]


def rectified(self, given: tuple[Tensor], result: Tensor):
    return result.relu()


def looks(self, given: tuple[Tensor], result: Tensor) -> None:
    self.looked += 1


class Inner(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 3)
        self.register_buffer("looked", torch.zeros(()))


class Outer(nn.Module):
    """Calls modules with hooks as modules do, and one without them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.inner.register_forward_pre_hook(doubled)
        self.inner.register_forward_pre_hook(shifted)
        self.inner.register_forward_hook(plus_input)
        self.inner.register_forward_hook(rectified)
        self.inner.register_forward_hook(looks)
        self.chain = nn.Sequential(self.inner, nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.chain(x) * self.inner.forward(x)


def outer() -> Outer:
    torch.manual_seed(0)
    module = Outer()
    module.register_forward_hook(plus_input)
    return module


def copies(module: nn.Module, writer) -> list:
    """What both packages load of an archive."""
    file = io.BytesIO()
    writer.save(module, file)
    loaded = []
    for reader in (jit, torch.jit):
        file.seek(0)
        loaded.append(reader.load(file))
    return loaded


def test_hooks_run_around_each_call_and_in_files_of_both_packages():
    module, x = outer(), torch.randn(2, 3)
    scripted, expected = jit.script(module), module(x)
    for script in (scripted, *copies(scripted, jit), *copies(torch.jit.script(module), torch.jit)):
        for _ in range(3):
            torch.testing.assert_close(script(x), expected)
            torch.testing.assert_close(script.inner(x), module.inner(x))
            torch.testing.assert_close(script.forward(x), module.forward(x))
    before = module.inner.looked.item()
    scripted(x)
    assert module.inner.looked.item() == before + 2


def test_modules_with_other_hooks_have_other_types():
    first, second, third = Inner(), Inner(), Inner()
    second.register_forward_hook(rectified)
    third.register_forward_pre_hook(shifted)
    x = torch.randn(2, 3)
    for module in (first, second, third):
        torch.testing.assert_close(jit.script(nn.Sequential(module))(x), module(x))


def test_a_trace_has_the_hooks_once():
    module, x = outer(), torch.randn(2, 3)
    torch.testing.assert_close(jit.trace(module, x)(x), module(x))


def test_hooks_get_what_hooks_before_them_returned():
    module, x = Inner(), torch.randn(2, 3)
    module.register_forward_pre_hook(shifted)
    module.register_forward_hook(plus_input)
    torch.testing.assert_close(jit.script(module)(x), nn.functional.linear(
        x + 1, module.weight, module.bias) + x + 1)  # fmt: skip


def test_a_frozen_module_does_not_lose_its_hooks():
    module, x = outer().eval(), torch.randn(2, 3)
    with pytest.raises(ValueError, match="hooks"):
        jit.freeze(jit.script(module))
    frozen = jit.freeze(jit.script(nn.Sequential(module)).eval())
    torch.testing.assert_close(frozen(x), module(x))


def maybe(self, given: tuple[Tensor], result: Tensor) -> Tensor | None:
    return result if bool(result.sum() > 0) else None


@pytest.mark.parametrize(
    "register",
    [
        lambda module: module.register_full_backward_hook(looks),
        lambda module: module.register_forward_hook(plus_input, with_kwargs=True),
        lambda module: module.register_forward_hook(plus_input, always_call=True),
        lambda module: module.register_forward_hook(lambda *_: None),
        lambda module: module.register_forward_hook(maybe),
    ],
    ids=["gradients", "keywords", "always", "lambda", "optional"],
)
def test_hooks_that_no_graph_can_call_are_refused(register):
    module = Inner()
    register(module)
    with pytest.raises(ScriptError, match="hook"):
        jit.script(nn.Sequential(module))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x: Tensor) -> Tensor:
        futures: list[jit.Future[Tensor]] = []
        for part in self.parts:
            futures.append(jit.fork(part, x))
        return sum([jit.wait(future) for future in futures], x)


def test_a_forked_module_runs_trains_and_crosses_to_the_peer():
    """The task had a method in the place of a function, which neither runtime nor file knew."""
    module, x = Branches(), torch.randn(2, 3)
    script = jit.script(module)
    for one in (script, *copies(script, jit)):
        for _ in range(2):
            torch.testing.assert_close(one(x), module(x))
    script(x).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


@jit.interface
class Scorer:
    def score(self, x: Tensor) -> Tensor: ...


@jit.script
class Doubles:
    def __init__(self, by: float) -> None:
        self.by = by

    def score(self, x: Tensor) -> Tensor:
        return x * self.by


@jit.script
class Negates:
    def __init__(self) -> None:
        self.count = 1

    def score(self, x: Tensor) -> Tensor:
        return -x * self.count


def total(x: Tensor, scorer: Scorer) -> Tensor:
    return scorer.score(x).sum()


def both(x: Tensor) -> Tensor:
    scorer: Scorer = Doubles(3.0)
    return total(x, scorer) + total(x, Negates()) * 0.5


def test_a_function_of_an_interface_is_compiled_for_each_class():
    x = torch.randn(3)
    torch.testing.assert_close(jit.script(both)(x), both(x))
