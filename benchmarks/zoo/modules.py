"""Every public module of `torch.nn` that can be called: constructor arguments and input shapes.

line ::= class, constructor arguments: inputs
input ::= a shape of normally distributed numbers | a function that draws something else
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Draw = Callable[[], Any]
LINE, PLANE, SPACE = (2, 4, 8), (2, 4, 8, 8), (2, 4, 6, 6, 6)


@dataclass(frozen=True)
class Module:
    """A class of `torch.nn`, its constructor's arguments, and what its `forward` takes."""

    name: str
    cls: Callable[..., nn.Module]
    inputs: tuple[Draw | tuple[int, ...], ...]
    options: dict[str, Any]

    def make(self) -> nn.Module:
        """A module with random weights."""
        return self.cls(**self.options)

    def draw(self) -> tuple[Any, ...]:
        """Random inputs."""
        return tuple(d() if callable(d) else torch.randn(d) for d in self.inputs)


def module(cls: type[nn.Module], *inputs: Draw | tuple[int, ...], **options: Any) -> Module:
    return Module(cls.__name__, cls, inputs, options)


def variant(
    what: str, cls: type[nn.Module], *inputs: Draw | tuple[int, ...], **options: Any
) -> Module:
    """A second line for a class that has another way to be used."""
    return Module(f"{cls.__name__}, {what}", cls, inputs, options)


def made(cls: type[nn.Module], make: Callable[[], nn.Module], *inputs: tuple[int, ...]) -> Module:
    """A module whose constructor takes modules."""
    return Module(cls.__name__, make, inputs, {})


class Container(nn.Module):
    """Calls all modules or uses all parameters of a container that has no `forward`."""

    def __init__(self, held: nn.Module) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: Tensor) -> Tensor:
        pairs = self.held.items() if hasattr(self.held, "items") else enumerate(self.held)
        for _, part in pairs:
            x = part(x) if isinstance(part, nn.Module) else x * part
        return x


class Unpooled(nn.Module):
    """A pooling whose indices its inverse takes."""

    def __init__(self, pool: nn.Module, unpool: nn.Module) -> None:
        super().__init__()
        self.pool, self.unpool = pool, unpool

    def forward(self, x: Tensor) -> Tensor:
        return self.unpool(*self.pool(x))


def linear() -> nn.Module:
    return nn.Linear(8, 8)


def parameter() -> nn.Parameter:
    return nn.Parameter(torch.randn(8))


def classes(count: int, *shape: int) -> Draw:
    return lambda: torch.randint(count, shape)


def chances(*shape: int) -> Draw:
    return lambda: torch.rand(shape)


def signs(*shape: int) -> Draw:
    return lambda: torch.randint(2, shape) * 2.0 - 1.0


def lengths(*values: int) -> Draw:
    return lambda: torch.tensor(values)


def halves(shape: tuple[int, ...]) -> Draw:
    return lambda: torch.randn(shape).log_softmax(-1)


def distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs().sum(-1)


def by_dimension(prefix: str, *, suffix: str = "d", **options: Any) -> list[Module]:
    shapes = (LINE, PLANE, SPACE)
    classes_of = [getattr(nn, f"{prefix}{n}{suffix}", None) for n in (1, 2, 3)]
    return [module(cls, shape, **options) for cls, shape in zip(classes_of, shapes) if cls]


ACTIVATIONS = [
    module(cls, LINE)
    for cls in (
        nn.CELU, nn.ELU, nn.GELU, nn.GLU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh,
        nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.RReLU, nn.ReLU, nn.ReLU6, nn.SELU,
        nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink,
    )
] + [
    module(nn.Threshold, LINE, threshold=0.1, value=2.0),
    *(module(cls, LINE, dim=-1) for cls in (nn.Softmax, nn.Softmin, nn.LogSoftmax)),
    module(nn.Softmax2d, PLANE),
    variant("in place", nn.ReLU, LINE, inplace=True),
]  # fmt: skip

CONVOLUTIONS = [
    *by_dimension("Conv", in_channels=4, out_channels=6, kernel_size=3),
    *by_dimension("ConvTranspose", in_channels=4, out_channels=6, kernel_size=3, stride=2),
    *by_dimension("LazyConv", out_channels=6, kernel_size=3),
    *by_dimension("LazyConvTranspose", out_channels=6, kernel_size=3),
    variant("circular", nn.Conv2d, PLANE, in_channels=4, out_channels=4, kernel_size=3, groups=2,
            padding="same", padding_mode="circular"),
    module(nn.Fold, (2, 12, 9), output_size=(4, 4), kernel_size=2),
    module(nn.Unfold, PLANE, kernel_size=2),
]  # fmt: skip

POOLS = [
    *by_dimension("AdaptiveAvgPool", output_size=2),
    *by_dimension("AdaptiveMaxPool", output_size=2),
    *by_dimension("AvgPool", kernel_size=2),
    *by_dimension("MaxPool", kernel_size=2),
    *by_dimension("LPPool", norm_type=2, kernel_size=2),
    module(nn.FractionalMaxPool2d, PLANE, kernel_size=2, output_size=3),
    module(nn.FractionalMaxPool3d, SPACE, kernel_size=2, output_size=3),
    variant("indices", nn.MaxPool2d, PLANE, kernel_size=2, return_indices=True),
    made(nn.MaxUnpool1d, lambda: Unpooled(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)),
         LINE),
    made(nn.MaxUnpool2d, lambda: Unpooled(nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)),
         PLANE),
    made(nn.MaxUnpool3d, lambda: Unpooled(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)),
         SPACE),
]  # fmt: skip

PADS = [
    *by_dimension("ReflectionPad", padding=1),
    *by_dimension("ReplicationPad", padding=1),
    *by_dimension("ZeroPad", padding=1),
    *by_dimension("ConstantPad", padding=1, value=3.5),
    *by_dimension("CircularPad", padding=1),
]

NORMS = [
    *by_dimension("BatchNorm", num_features=4),
    *by_dimension("LazyBatchNorm"),
    *by_dimension("InstanceNorm", num_features=4, affine=True, track_running_stats=True),
    *by_dimension("LazyInstanceNorm"),
    variant("cumulative", nn.BatchNorm1d, LINE, num_features=4, momentum=None),
    module(nn.SyncBatchNorm, PLANE, num_features=4),
    module(nn.GroupNorm, PLANE, num_groups=2, num_channels=4),
    module(nn.LayerNorm, LINE, normalized_shape=8),
    module(nn.RMSNorm, LINE, normalized_shape=8),
    module(nn.LocalResponseNorm, PLANE, size=2),
    module(nn.CrossMapLRN2d, PLANE, size=2),
]

DROPOUTS = [
    *by_dimension("Dropout"),
    module(nn.Dropout, LINE),
    module(nn.AlphaDropout, LINE),
    module(nn.FeatureAlphaDropout, PLANE),
]

SHAPES = [
    module(nn.Identity, LINE),
    module(nn.Flatten, LINE),
    module(nn.Unflatten, LINE, dim=2, unflattened_size=(2, 4)),
    module(nn.ChannelShuffle, PLANE, groups=2),
    module(nn.PixelShuffle, PLANE, upscale_factor=2),
    module(nn.PixelUnshuffle, PLANE, downscale_factor=2),
    module(nn.Upsample, PLANE, scale_factor=2, mode="bicubic"),
    module(nn.UpsamplingBilinear2d, PLANE, scale_factor=2),
    module(nn.UpsamplingNearest2d, PLANE, size=(11, 13)),
]

LINEARS = [
    module(nn.Linear, LINE, in_features=8, out_features=5),
    module(nn.LazyLinear, LINE, out_features=5),
    module(nn.Bilinear, (3, 8), (3, 4), in1_features=8, in2_features=4, out_features=5),
    module(nn.Embedding, classes(9, 2, 5), num_embeddings=9, embedding_dim=4),
    variant("normalized", nn.Embedding, classes(9, 2, 5), num_embeddings=9, embedding_dim=4,
            max_norm=1.0, padding_idx=0),
    module(nn.EmbeddingBag, classes(9, 2, 5), num_embeddings=9, embedding_dim=4),
    variant("offsets", nn.EmbeddingBag, classes(9, 10), lengths(0, 3, 7), num_embeddings=9,
            embedding_dim=4, mode="max"),
    module(nn.CosineSimilarity, (3, 8), (3, 8)),
    module(nn.PairwiseDistance, (3, 8), (3, 8)),
]  # fmt: skip

RECURRENT = [
    module(nn.RNN, LINE, input_size=8, hidden_size=5, num_layers=2),
    module(nn.GRU, LINE, input_size=8, hidden_size=5, bidirectional=True),
    module(nn.LSTM, LINE, input_size=8, hidden_size=5, num_layers=2, dropout=0.5),
    variant("projected", nn.LSTM, LINE, input_size=8, hidden_size=5, proj_size=3, batch_first=True),
    module(nn.RNNCell, (2, 8), (2, 5), input_size=8, hidden_size=5),
    module(nn.GRUCell, (2, 8), (2, 5), input_size=8, hidden_size=5),
    module(nn.LSTMCell, (2, 8), input_size=8, hidden_size=5),
]

SEQUENCE, LAYER = (5, 2, 8), {"d_model": 8, "nhead": 2, "dim_feedforward": 16}
TRANSFORMERS = [
    module(nn.MultiheadAttention, *(SEQUENCE,) * 3, embed_dim=8, num_heads=2),
    variant("other sizes", nn.MultiheadAttention, SEQUENCE, (4, 2, 6), (4, 2, 7), embed_dim=8,
            num_heads=2, kdim=6, vdim=7, add_bias_kv=True, add_zero_attn=True, dropout=0.1),
    module(nn.TransformerEncoderLayer, SEQUENCE, **LAYER),
    module(nn.TransformerDecoderLayer, SEQUENCE, SEQUENCE, **LAYER),
    made(nn.TransformerEncoder,
         lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), SEQUENCE),
    made(nn.TransformerDecoder,
         lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2), SEQUENCE,
         SEQUENCE),
    module(nn.Transformer, SEQUENCE, SEQUENCE, **LAYER, num_encoder_layers=1,
           num_decoder_layers=1),
]  # fmt: skip

CONTAINERS = [
    made(nn.Sequential, lambda: nn.Sequential(linear(), nn.ReLU(), linear()), LINE),
    made(nn.ModuleList, lambda: Container(nn.ModuleList([linear(), linear()])), LINE),
    made(nn.ModuleDict, lambda: Container(nn.ModuleDict({"a": linear(), "b": nn.Tanh()})), LINE),
    made(nn.ParameterList, lambda: Container(nn.ParameterList([parameter(), parameter()])), LINE),
    made(nn.ParameterDict, lambda: Container(nn.ParameterDict({"a": parameter()})), LINE),
    made(nn.DataParallel, lambda: nn.DataParallel(linear()), LINE),
]

ROWS = (4, 5)
LOSSES = [
    *(module(cls, ROWS, ROWS) for cls in (nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.HuberLoss)),
    module(nn.BCELoss, chances(*ROWS), chances(*ROWS)),
    module(nn.BCEWithLogitsLoss, ROWS, chances(*ROWS)),
    module(nn.CTCLoss, halves((12, 2, 5)), lambda: torch.randint(1, 5, (2, 3)), lengths(12, 9),
           lengths(3, 2)),
    module(nn.CosineEmbeddingLoss, ROWS, ROWS, signs(4)),
    module(nn.CrossEntropyLoss, ROWS, classes(5, 4)),
    variant("smoothed", nn.CrossEntropyLoss, ROWS, classes(5, 4), label_smoothing=0.1),
    module(nn.GaussianNLLLoss, ROWS, ROWS, chances(*ROWS)),
    module(nn.HingeEmbeddingLoss, ROWS, signs(*ROWS)),
    module(nn.KLDivLoss, halves(ROWS), chances(*ROWS), reduction="batchmean"),
    module(nn.MarginRankingLoss, (4,), (4,), signs(4)),
    module(nn.MultiLabelMarginLoss, ROWS, classes(5, 4, 5)),
    module(nn.MultiLabelSoftMarginLoss, ROWS, lambda: torch.randint(2, ROWS).float()),
    module(nn.MultiMarginLoss, ROWS, classes(5, 4)),
    module(nn.NLLLoss, halves(ROWS), classes(5, 4)),
    module(nn.NLLLoss2d, (2, 5, 3, 3), classes(5, 2, 3, 3)),
    module(nn.PoissonNLLLoss, ROWS, chances(*ROWS)),
    module(nn.SoftMarginLoss, ROWS, signs(*ROWS)),
    module(nn.TripletMarginLoss, ROWS, ROWS, ROWS),
    module(nn.TripletMarginWithDistanceLoss, ROWS, ROWS, ROWS),
    variant("own distance", nn.TripletMarginWithDistanceLoss, ROWS, ROWS, ROWS,
            distance_function=distance),
    module(nn.AdaptiveLogSoftmaxWithLoss, ROWS, classes(9, 4), in_features=5, n_classes=9,
           cutoffs=[3, 6]),
]  # fmt: skip
if hasattr(nn, "LinearCrossEntropyLoss"):  # newer than the oldest PyTorch that is supported
    fused = module(nn.LinearCrossEntropyLoss, ROWS, classes(3, 4), in_features=5, num_classes=3)
    LOSSES.append(fused)

MODULES = [
    *ACTIVATIONS, *CONVOLUTIONS, *POOLS, *PADS, *NORMS, *DROPOUTS, *SHAPES, *LINEARS, *RECURRENT,
    *TRANSFORMERS, *CONTAINERS, *LOSSES,
]  # fmt: skip
