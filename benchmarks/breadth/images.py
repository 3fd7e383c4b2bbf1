"""Architectures of images, written from their published configurations; weights are random."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Activation = Callable[[], nn.Module]


def convolution(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    act: Activation | None = nn.ReLU,
) -> nn.Sequential:
    """A convolution, batch norm, and an activation."""
    padding = (kernel - 1) // 2
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


def head(channels: int, classes: int = 100) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)


class SqueezeExcitation(nn.Module):
    """Channels weighted by a small network of their means (Hu et al., 2018)."""

    def __init__(self, channels: int, squeezed: int, act: Activation, gate: Activation) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), act(),
            nn.Conv2d(squeezed, channels, 1), gate(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection (MobileNet V2, V3)."""

    def __init__(
        self,
        sizes: tuple[int, int, int],
        kernel: int,
        stride: int,
        act: Activation,
        excitation: nn.Module | None,
    ) -> None:
        super().__init__()
        inputs, expanded, outputs = sizes
        self.body = nn.Sequential(
            *([convolution(inputs, expanded, 1, act=act)] if expanded != inputs else []),
            convolution(expanded, expanded, kernel, stride, expanded, act),
            *([excitation] if excitation else []),
            convolution(expanded, outputs, 1, act=None),
        )
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.is_residual else y


def mobilenet_v3_small() -> nn.Module:
    """Kernel, expanded and given channels, excitation, activation, stride (Howard et al., 2019)."""
    relu, hard = nn.ReLU, nn.Hardswish
    rows: list[tuple[int, int, int, bool, Activation, int]] = [
        (3, 16, 16, True, relu, 2), (3, 72, 24, False, relu, 2), (3, 88, 24, False, relu, 1),
        (5, 96, 40, True, hard, 2), (5, 240, 40, True, hard, 1), (5, 240, 40, True, hard, 1),
        (5, 120, 48, True, hard, 1), (5, 144, 48, True, hard, 1), (5, 288, 96, True, hard, 2),
        (5, 576, 96, True, hard, 1), (5, 576, 96, True, hard, 1),
    ]  # fmt: skip
    blocks, channels = list[nn.Module](), 16
    for kernel, expanded, outputs, excited, act, stride in rows:
        squeezed = max(8, (expanded // 4 + 4) // 8 * 8)
        se = SqueezeExcitation(expanded, squeezed, relu, nn.Hardsigmoid) if excited else None
        sizes = channels, expanded, outputs
        blocks.append(InvertedResidual(sizes, kernel, stride, act, se))
        channels = outputs
    last = convolution(96, 576, 1, act=hard), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    top = nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000)
    return nn.Sequential(convolution(3, 16, 3, 2, act=hard), *blocks, *last, *top)


def efficientnet_b0() -> nn.Module:
    """Expansion, kernel, stride, channels and repeats of each stage (Tan and Le, 2019)."""
    stages = [
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
    ]  # fmt: skip
    blocks, channels = list[nn.Module](), 32
    for expansion, kernel, stride, outputs, repeats in stages:
        for i in range(repeats):
            wide = channels * expansion
            se = SqueezeExcitation(wide, channels // 4, nn.SiLU, nn.Sigmoid)
            step = stride if i == 0 else 1
            block = InvertedResidual((channels, wide, outputs), kernel, step, nn.SiLU, se)
            blocks.append(block)
            channels = outputs
    top = convolution(320, 1280, 1, act=nn.SiLU), *head(1280)
    return nn.Sequential(convolution(3, 32, 3, 2, act=nn.SiLU), *blocks, *top)


class Residual(nn.Module):
    """A basic block, or a bottleneck with groups (ResNet, ResNeXt)."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int, basic: bool) -> None:
        super().__init__()
        width = outputs if basic else outputs // 2
        inner = [
            convolution(inputs, width, 3 if basic else 1, stride if basic else 1),
            convolution(width, outputs, 3, act=None)
            if basic
            else nn.Sequential(
                convolution(width, width, 3, stride, groups),
                convolution(width, outputs, 1, act=None),
            ),
        ]
        self.body = nn.Sequential(*inner)
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else convolution(inputs, outputs, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.short(x))


def resnet(
    depths: Sequence[int], widths: Sequence[int], groups: int = 1, basic: bool = True
) -> nn.Module:
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for i in range(depth):
            stride = 2 if stage and i == 0 else 1
            layers.append(Residual(channels, width, stride, groups, basic))
            channels = width
    return nn.Sequential(*layers, *head(channels))


def resnet18() -> nn.Module:
    return resnet((2, 2, 2, 2), (64, 128, 256, 512))


def resnext() -> nn.Module:
    return resnet((2, 2, 2), (128, 256, 512), groups=16, basic=False)


class Shuffled(nn.Module):
    """Half of the channels go by, and the channels are shuffled (ShuffleNet V2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.body = nn.Sequential(
            convolution(half, half, 1),
            convolution(half, half, 3, groups=half, act=None),
            convolution(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1)
        return F.channel_shuffle(torch.cat([kept, self.body(changed)], 1), 2)


def shufflenet() -> nn.Module:
    stages = list[nn.Module]()
    for inputs, outputs in ((24, 48), (48, 96), (96, 192)):
        stages += [convolution(inputs, outputs, 3, 2), *(Shuffled(outputs) for _ in range(3))]
    return nn.Sequential(convolution(3, 24, 3, 2), *stages, *head(192))


class Fire(nn.Module):
    """Few channels, then two convolutions side by side (SqueezeNet)."""

    def __init__(self, inputs: int, squeezed: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.small = nn.Conv2d(squeezed, outputs, 1)
        self.large = nn.Conv2d(squeezed, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.small(x)), F.relu(self.large(x))], 1)


def squeezenet() -> nn.Module:
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    fires = Fire(64, 16, 64), Fire(128, 16, 64), pool, Fire(128, 32, 128), Fire(256, 32, 128)
    return nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool, *fires, *head(256))


class ConvNextBlock(nn.Module):
    """A wide depthwise convolution, then a perceptron of each pixel (Liu et al., 2022)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.body = nn.Sequential(
            nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(),
            nn.Linear(4 * channels, channels),
        )  # fmt: skip
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * y).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    def stage(channels: int) -> list[nn.Module]:
        return [ConvNextBlock(channels) for _ in range(2)]

    down = nn.GroupNorm(1, 48), nn.Conv2d(48, 96, 2, 2)
    return nn.Sequential(nn.Conv2d(3, 48, 4, 4), *stage(48), *down, *stage(96), *head(96))


def vgg() -> nn.Module:
    layers, channels = list[nn.Module](), 3
    for width, count in ((32, 1), (64, 1), (128, 2), (256, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    top = nn.Flatten(), nn.Linear(256 * 16, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 100)
    return nn.Sequential(*layers, *top)


class DenseLayer(nn.Module):
    """Norm, activation and convolution, whose channels are appended (DenseNet)."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    first = [DenseLayer(32 + 16 * i, 16) for i in range(4)]
    second = [DenseLayer(48 + 16 * i, 16) for i in range(4)]
    between = nn.BatchNorm2d(96), nn.ReLU(), nn.Conv2d(96, 48, 1), nn.AvgPool2d(2)
    return nn.Sequential(convolution(3, 32, 3, 2), *first, *between, *second, *head(112))


class NormalizedBlock(nn.Module):
    """Group norm, SiLU and convolution, twice, around which the input goes by (diffusion)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1),
        )  # fmt: skip
        self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.short(x)


class UNet(nn.Module):
    """Two levels down and up, with what was on the way down appended on the way up."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        c = channels
        self.stem, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.first, self.second = NormalizedBlock(c, c), NormalizedBlock(c, 2 * c)
        self.middle = NormalizedBlock(2 * c, 2 * c)
        self.third, self.fourth = NormalizedBlock(4 * c, c), NormalizedBlock(2 * c, c)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(self.stem(x))
        second = self.second(F.avg_pool2d(first, 2))
        x = self.middle(F.avg_pool2d(second, 2))
        x = self.third(torch.cat([F.interpolate(x, scale_factor=2.0), second], 1))
        x = self.fourth(torch.cat([F.interpolate(x, scale_factor=2.0), first], 1))
        return self.out(x)


class ImageVAE(nn.Module):
    """A convolutional variational autoencoder; its loss, with given noise."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 49, 32),
        )  # fmt: skip
        self.decode = nn.Sequential(
            nn.Linear(16, 32 * 49), nn.ReLU(), nn.Unflatten(1, (32, 7, 7)),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        mean, log_variance = self.encode(x).chunk(2, 1)
        logits = self.decode(mean + noise * (0.5 * log_variance).exp())
        error = F.binary_cross_entropy_with_logits(logits, x.sigmoid(), reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (error + divergence) / len(x)


def generator() -> nn.Module:
    def up(inputs: int, outputs: int, stride: int = 2) -> list[nn.Module]:
        turned = nn.ConvTranspose2d(inputs, outputs, 4, stride, stride // 2, bias=False)
        return [turned, nn.BatchNorm2d(outputs), nn.ReLU()]

    last = nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()
    return nn.Sequential(*up(64, 128, 1), *up(128, 64), *up(64, 32), *last)


def superresolution() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
        nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3),
    )  # fmt: skip


class Segmentation(nn.Module):
    """Atrous convolutions side by side, and bilinear upsampling (DeepLab)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 32, 3, 2), convolution(32, 64, 3, 2))
        rates = [nn.Conv2d(64, 32, 3, padding=rate, dilation=rate) for rate in (1, 2, 4)]
        self.rates, self.out = nn.ModuleList(rates), nn.Conv2d(96, 21, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        y = self.out(torch.cat([F.relu(rate(y)) for rate in self.rates], 1))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class Mixer(nn.Module):
    """Perceptrons over patches and over channels in turns (Tolstikhin et al., 2021)."""

    def __init__(self, width: int = 128, patches: int = 64, depth: int = 4) -> None:
        super().__init__()

        def perceptron(size: int) -> nn.Module:
            return nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

        self.stem, self.out = nn.Conv2d(3, width, 8, 8), nn.Linear(width, 100)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.over_patches = nn.ModuleList(perceptron(patches) for _ in range(depth))
        self.over_channels = nn.ModuleList(perceptron(width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        for i, (patches, channels) in enumerate(zip(self.over_patches, self.over_channels)):
            x = x + patches(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return self.out(x.mean(1))
