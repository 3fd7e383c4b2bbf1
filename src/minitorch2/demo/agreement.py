"""The agreement of eager and compiled: embeddings at several shapes, and two loss curves."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from minitorch2.demo.encoder import load_encoder, nearest_neighbours, tokenize
from minitorch2.demo.workloads import COMPILERS, embed, sentences, training

# Float32 sums in another order: the last digits of an embedding's numbers (about 0.05 each) differ.
EMBEDDING_TOLERANCE = 1e-5
# A step's rounding differences grow with every step after it. Eager against eager with another
# number of threads differs as much, so only curves that part visibly are an error.
FIRST_LOSS_TOLERANCE = 1e-4
LOSS_TOLERANCE = 1e-2


@dataclass(frozen=True)
class EmbeddingAgreement:
    """The comparison of one batch that was embedded twice.

    `shape` is the tokens' [batch, time]. `absolute` is the largest difference of two numbers, and
    `relative` the largest length of a row's difference by the row's length. `same_neighbours` is
    the number of sentences with the same nearest neighbour.
    """

    shape: tuple[int, ...]
    absolute: float
    relative: float
    same_neighbours: int

    @property
    def holds(self) -> bool:
        """True if the two embeddings are the same but for rounding."""
        return self.absolute <= EMBEDDING_TOLERANCE and self.same_neighbours == self.shape[0]


@dataclass(frozen=True)
class Neighbour:
    """A sentence, the most similar other one by each of the embeddings, and eager's cosine."""

    sentence: str
    eager: str
    compiled: str
    cosine: float


def compare(eager: Tensor, compiled: Tensor, shape: tuple[int, ...]) -> EmbeddingAgreement:
    """Compare embeddings [batch, width] of the same sentences."""
    difference = compiled - eager
    same = nearest_neighbours(eager) == nearest_neighbours(compiled)
    return EmbeddingAgreement(
        shape=shape,
        absolute=difference.abs().max().item(),
        relative=(difference.norm(dim=1) / eager.norm(dim=1)).max().item(),
        same_neighbours=int(same.sum()),
    )


def embedding_agreements() -> Iterator[tuple[EmbeddingAgreement, list[Neighbour]]]:
    """Embed batches of several shapes eagerly and compiled; one function serves all shapes."""
    encoder, tokenizer = load_encoder()
    compiled = COMPILERS["minitorch2"](encoder)
    everything = sentences()
    for batch in (everything, everything[:8], sorted(everything, key=len)[:3]):
        tokens = tokenize(tokenizer, batch)
        with torch.no_grad():
            expected, got = embed(encoder, tokens), embed(compiled, tokens)
        agreement = compare(expected, got, tuple(tokens["input_ids"].shape))
        yield agreement, _neighbours(batch, expected, got)


def _neighbours(batch: list[str], eager: Tensor, compiled: Tensor) -> list[Neighbour]:
    pairs = zip(nearest_neighbours(eager), nearest_neighbours(compiled), strict=True)
    return [
        Neighbour(batch[i], batch[a], batch[b], float(eager[i] @ eager[a]))
        for i, (a, b) in enumerate(pairs)
    ]


@dataclass(frozen=True)
class TrainingStep:
    """The same step of training by each compiler: losses and seconds, by the compiler's name."""

    losses: dict[str, float]
    seconds: dict[str, float]


def training_steps(compilers: list[str], count: int) -> Iterator[TrainingStep]:
    """Train one model a compiler, from one seed on the same batches, taking turns step by step."""
    curves = {name: training(COMPILERS[name], count) for name in compilers}
    for _ in range(count):
        step = TrainingStep({}, {})
        for name, losses in curves.items():
            start = perf_counter()
            step.losses[name] = next(losses)
            step.seconds[name] = perf_counter() - start
        yield step


def curves_agree(steps: list[TrainingStep]) -> bool:
    """Return whether the compiled loss curve is the eager one: exact at first, close to the end."""
    differences = [abs(step.losses["minitorch2"] - step.losses["eager"]) for step in steps]
    # Each is compared, rather than the largest: a NaN must not slip through `max`.
    close = all(difference <= LOSS_TOLERANCE for difference in differences)
    return close and differences[0] <= FIRST_LOSS_TOLERANCE
