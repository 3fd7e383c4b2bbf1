"""The workloads of the demo, and the compilers that it compares."""

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import minitorch2
from minitorch2.demo.encoder import Tokens, load_encoder, tokenize

# A model of any signature: the demo's two have nothing in common but being callable.
Model = Callable[..., Any]
Compiler = Callable[[nn.Module], Model]

COMPILERS: dict[str, Compiler] = {
    "eager": lambda model: model,
    "minitorch2": minitorch2.compile,
    "torch.compile": torch.compile,  # the peer, only with --peer
}
BATCH = 12


def examples_folder() -> Path:
    """`examples/`: beside this file in an installed wheel, at the root of a checkout."""
    here = Path(__file__).resolve()
    candidates = [here.parent / "examples", here.parents[3] / "examples"]
    for folder in candidates:
        if (folder / "gpt.py").exists():
            return folder
    raise FileNotFoundError(f"the folder examples/ is in none of {[str(c) for c in candidates]}")


def load_gpt_example() -> ModuleType:
    """`examples/gpt.py` as a module: the demo trains exactly the file that readers open."""
    path = examples_folder() / "gpt.py"
    spec = spec_from_file_location("gpt", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["gpt"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def sentences() -> list[str]:
    """Return the sentences of `examples/sentences.txt`, without the headings of their topics."""
    lines = (examples_folder() / "sentences.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def embedding(compiler: Compiler) -> Callable[[], Tensor]:
    """Return a function that embeds all sentences as one batch [sentences, longest]."""
    encoder, tokenizer = load_encoder()
    tokens = tokenize(tokenizer, sentences())
    compiled = compiler(encoder)

    def run() -> Tensor:
        with torch.no_grad():
            return embed(compiled, tokens)

    return run


def embed(encoder: Model, tokens: Tokens) -> Tensor:
    """Call an encoder that may be compiled; the result is [batch, width]."""
    result: Tensor = encoder(tokens["input_ids"], tokens["attention_mask"])
    return result


def training(compiler: Compiler, steps: int) -> Iterator[float]:
    """Train the GPT from a fixed seed; the next loss is computed when it is asked for."""
    gpt = load_gpt_example()
    text = gpt.Text((examples_folder() / "data" / "shakespeare.txt").read_text(encoding="utf-8"))
    torch.manual_seed(0)
    model = gpt.GPT(gpt.GPTConfig(vocabulary=len(text.alphabet)))
    batches = text.batches(steps, BATCH, model.config.context)
    losses: Iterator[float] = gpt.train(model, batches, compiler)
    return losses


def one_step(compiler: Compiler) -> Callable[[], float]:
    """Return a function that does one training step of the GPT."""
    losses = training(compiler, steps=sys.maxsize)
    return lambda: next(losses)


# Each entry prepares a model and its input, and returns a function that runs it once.
WORKLOADS: dict[str, Callable[[Compiler], Callable[[], object]]] = {
    "encoder": embedding,
    "gpt": one_step,
}
