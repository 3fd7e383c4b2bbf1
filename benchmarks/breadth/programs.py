"""The list of programs: what is built, and what goes in."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.breadth import attention, images, science, sequences
from benchmarks.cases import Case, Function
from benchmarks.models import named
from benchmarks.table2 import zoo_models

MakeInputs = Callable[[], tuple[Tensor, ...]]


def drawn(*shapes: tuple[int, ...]) -> MakeInputs:
    return lambda: tuple(map(torch.randn, shapes))


def photos(batch: int, size: int) -> MakeInputs:
    return drawn((batch, 3, size, size))


def inference(name: str, make: Callable[[], nn.Module], inputs: MakeInputs) -> Case:
    return Case(f"{name}, inference", lambda: make().eval(), inputs)


def training(name: str, make: Callable[[], Function], inputs: MakeInputs) -> Case:
    return Case(f"{name}, training", make, inputs, backward=True, draws=True)


def of_function(name: str, function: Function, inputs: MakeInputs) -> Case:
    return Case(name, lambda: function, inputs)


def tokens(*shape: int, words: int = 500) -> Tensor:
    return torch.randint(words, shape)


def vision() -> list[Case]:
    nets: list[tuple[str, Callable[[], nn.Module], int]] = [
        ("MobileNetV3-small", images.mobilenet_v3_small, 224),
        ("ResNet-18", images.resnet18, 128),
        ("ResNeXt", images.resnext, 64),
        ("ShuffleNet", images.shufflenet, 96),
        ("SqueezeNet", images.squeezenet, 96),
        ("DenseNet", images.densenet, 64),
        ("ConvNeXt", images.convnext, 96),
    ]
    return [
        *(inference(f"{name} x1", make, photos(1, size)) for name, make, size in nets),
        *(training(f"{name} x4", make, photos(4, size // 2)) for name, make, size in nets),
        inference("EfficientNet-b0 x4", images.efficientnet_b0, photos(4, 128)),
        inference("VGG x2", images.vgg, photos(2, 64)),
        inference("Mixer x4", images.Mixer, photos(4, 64)),
        inference("U-Net x2", images.UNet, photos(2, 64)),
        training("U-Net x2", images.UNet, photos(2, 32)),
        training("VAE x32", images.ImageVAE, drawn((32, 1, 28, 28), (32, 16))),
        training("generator x16", images.generator, drawn((16, 64, 2, 2))),
        inference("superresolution x1", images.superresolution, drawn((1, 1, 64, 64))),
        inference("segmentation x2", images.Segmentation, photos(2, 96)),
        training("segmentation x2", images.Segmentation, photos(2, 64)),
    ]


def clicks() -> tuple[Tensor, ...]:
    categories = torch.randint(10_000, (128, 8, 4))
    return torch.randn(128, 13), categories, torch.randint(2, (128,)).float()


def decoding(batch: int) -> MakeInputs:
    shape = (4, 2, batch, 4, 128, 64)
    return lambda: (tokens(batch), torch.tensor([77]), torch.randn(shape))


def language() -> list[Case]:
    return [
        training("LSTM language model", partial(sequences.LanguageModel, nn.LSTM),
                 lambda: (tokens(8, 17),)),
        training("GRU language model", partial(sequences.LanguageModel, nn.GRU),
                 lambda: (tokens(8, 17),)),
        inference("decoding with a cache x1", sequences.CachedDecoder, decoding(1)),
        inference("decoding with a cache x8", sequences.CachedDecoder, decoding(8)),
        training("recommender", sequences.Recommender, clicks),
        training("factorization machine", sequences.FactorizationMachine,
                 lambda: (tokens(512, 10, words=20_000), torch.randint(2, (512,)).float())),
        inference("tagger x1", sequences.tagger, lambda: (tokens(1, 48),)),
        training("tagger x8", sequences.tagger, lambda: (tokens(8, 48),)),
        inference("WaveNet", sequences.WaveNet, drawn((2, 1, 2000))),
        training("WaveNet", sequences.WaveNet, drawn((2, 1, 1000))),
    ]  # fmt: skip


KINDS = ("full", "causal", "window", "alibi", "soft cap", "relative", "grouped")


def attentions() -> list[Case]:
    """Attention written by hand, windows, and heads of as many words as no vector divides."""
    words = {"GPT-like head": (50_257, True), "BERT-like head": (30_522, False)}
    made = {name: partial(attention.Language, *given) for name, given in words.items()}
    by_hand = {kind: partial(attention.Attention, kind) for kind in KINDS}
    rows = drawn((2, 256, 128))
    return [
        *(inference(f"attention by hand, {kind}", make, rows) for kind, make in by_hand.items()),
        *(training(f"attention by hand, {kind}", make, rows) for kind, make in by_hand.items()),
        *(inference(name, make, lambda: (tokens(1, 64),)) for name, make in made.items()),
        *(training(name, make, lambda: (tokens(1, 32),)) for name, make in made.items()),
        inference("Swin x1", attention.Swin, photos(1, 56)),
        training("Swin x2", attention.Swin, photos(2, 56)),
    ]


HEADS = ("BertForMaskedLM", "GPT2LMHeadModel", "T5ForConditionalGeneration", "LlamaForCausalLM",
         "ViTForImageClassification")  # fmt: skip


def transformers() -> list[Case]:
    """Families of the transformers library with their heads and losses."""
    models = zoo_models({head: {} for head in HEADS})
    return [case for model in models for case in named(model)]


def graph() -> tuple[Tensor, ...]:
    return torch.randn(1000, 64), torch.randint(1000, (2, 5000))


def small_graph() -> tuple[Tensor, ...]:
    return torch.randn(1000, 32), torch.randint(1000, (2, 4000))


def options() -> tuple[Tensor, ...]:
    spot, strike, years = torch.rand(3, 1_000_000) + 0.5
    return spot, strike, years


def pixels() -> tuple[Tensor, ...]:
    grid = torch.meshgrid(torch.linspace(-2, 1, 300), torch.linspace(-1, 1, 200), indexing="ij")
    return grid[0].contiguous(), grid[1].contiguous()


def sciences() -> list[Case]:
    return [
        of_function("heat", science.heat, drawn((256, 256))),
        of_function("waves", science.waves, drawn((256, 256), (256, 256))),
        of_function("option prices", science.option_prices, options),
        of_function("Asian option", science.asian_option, drawn((4000, 64))),
        of_function("k-means", science.k_means, drawn((5000, 16), (32, 16))),
        of_function("planets", science.planets, drawn((256, 3), (256, 3), (256,))),
        training("Lennard-Jones forces", lambda: science.lennard_jones,
                 lambda: (6 * torch.rand(128, 3),)),
        training("graph network", science.GraphNetwork, graph),
        inference("graph network", science.GraphNetwork, graph),
        training("graph attention", science.GraphAttention, small_graph),
        training("physics-informed network", science.PhysicsInformed, drawn((512, 2))),
        of_function("spectrogram", science.spectrogram,
                    lambda: (torch.randn(4, 16000), torch.hann_window(256))),
        of_function("filter", science.filtered, drawn((8, 8000), (33,))),
        of_function("Kalman filter", science.kalman, drawn((512, 24))),
        of_function("Lorenz", science.lorenz, drawn((3, 4096))),
        of_function("Mandelbrot", science.mandelbrot, pixels),
        of_function("edges", science.edges, drawn((2, 1, 128, 128))),
        training("Gaussian process", lambda: science.gaussian_process, drawn((128, 4), (128,))),
        of_function("PageRank", science.ranks,
                    lambda: ((torch.rand(500, 500) < 0.05).float(), torch.full((500,), 1 / 500))),
        Case("regression step", science.regression,
             lambda: (torch.randn(256, 64), torch.randint(10, (256,)))),
    ]  # fmt: skip


def programs() -> list[Case]:
    """Every program."""
    return [*vision(), *language(), *attentions(), *transformers(), *sciences()]
