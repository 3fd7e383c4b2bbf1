"""Single kernels by family: 1 thousand to 10 million elements, float32 and bfloat16.

A family is a function (or module) of tensors; `kernel` crosses it with shapes, dtypes and
directions. `python -m benchmarks kernels --only softmax` measures one family.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.cases import Case, Function

Shape = tuple[int, ...]
MakeInputs = Callable[..., tuple[Tensor, ...]]

F32, BF16 = torch.float32, torch.bfloat16
SMALL, MEDIUM, LARGE, HUGE = (32, 32), (512, 512), (2048, 1024), (2500, 4000)
NAMES = {F32: "", BF16: " bf16"}


def tensors(count: int) -> MakeInputs:
    """Inputs: so many random tensors of the case's shape and dtype."""
    return lambda shape, dtype: tuple(torch.randn(shape, dtype=dtype) for _ in range(count))


ONE, TWO = tensors(1), tensors(2)


def kernel(
    name: str,
    function: Function,
    shapes: Iterable[Shape] = (LARGE,),
    inputs: MakeInputs = ONE,
    dtypes: Sequence[torch.dtype] = (F32,),
    backward: bool = False,
    draws: bool = False,
) -> Iterator[Case]:
    """A family's cases: every shape, every dtype; with `backward`, gradients are asked for too."""
    for shape in shapes:
        for dtype in dtypes:
            size = "x".join(map(str, shape)) + NAMES[dtype]
            yield Case(
                f"{name}{', backward' if backward else ''} {size}",
                lambda: function,
                lambda shape=shape, dtype=dtype: inputs(shape, dtype),
                backward,
                draws,
            )


def layer(name: str, make: Callable[[int], nn.Module], shape: Shape, *, width: int) -> list[Case]:
    """A normalization with its parameters, forward and backward."""
    size = "x".join(map(str, shape))
    inputs = lambda: (torch.randn(shape),)  # noqa: E731
    return [
        Case(f"{name} {size}", lambda: make(width), inputs),
        Case(f"{name}, backward {size}", lambda: make(width), inputs, backward=True),
    ]


# -- functions -------------------------------------------------------------------------------------


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Eight pointwise operators that eager runs one by one."""
    return ((x * y + 1).abs().sqrt() - x.sigmoid()).clamp(-2, 2) * y.tanh()


def residual_gelu(x: Tensor, y: Tensor) -> Tensor:
    return F.gelu(x + y) + x


def gated(x: Tensor, y: Tensor) -> Tensor:
    return F.silu(x) * y


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, dim=-1)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def rotary(x: Tensor, angle: Tensor) -> Tensor:
    """Rotary embedding: halves of the last dimension turned by position's angles."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    both = torch.cat((angle, angle), dim=-1)
    return x * both.cos() + turned * both.sin()


def embed(tokens: Tensor, table: Tensor) -> Tensor:
    return F.embedding(tokens, table) * 2


def attention_weights(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)


def dropout(x: Tensor, y: Tensor) -> Tensor:
    return F.dropout(x + y, 0.1, training=True) + y


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat((x + 1, y * 2, x - y), dim=1)


def stacked(x: Tensor, y: Tensor) -> Tensor:
    return torch.stack((x.sin(), y.cos()), dim=-1).flatten(-2)


def padded(x: Tensor) -> Tensor:
    return F.pad(x.relu(), (1, 1, 1, 1))


def outer(x: Tensor, y: Tensor) -> Tensor:
    return x[:, :1] * y[:1] + 1


def biased(x: Tensor, bias: Tensor) -> Tensor:
    return F.relu(x + bias)


def heads_first(x: Tensor) -> Tensor:
    return (x + 1).transpose(1, 2).contiguous()


def scattered(x: Tensor, index: Tensor) -> Tensor:
    return torch.zeros_like(x).scatter_add(1, index, x)


# -- inputs ----------------------------------------------------------------------------------------


def with_weight(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.randn(shape, dtype=dtype), torch.randn(shape[-1], dtype=dtype)


def labelled(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.randn(shape, dtype=dtype), torch.randint(shape[-1], shape[:1])


def indexed(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.randn(shape, dtype=dtype), torch.randint(shape[-1], shape)


def rows_of(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.randn(shape, dtype=dtype), torch.randint(shape[0], shape[:1])


def tokens(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.randint(1000, shape[:1]), torch.randn(1000, shape[1], dtype=dtype)


def masked(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    mask = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
    return torch.randn(shape, dtype=dtype), mask


def angled(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return torch.randn(shape, dtype=dtype), torch.rand(shape[-2], shape[-1] // 2, dtype=dtype) * 6


# -- the list --------------------------------------------------------------------------------------

BOTH = (F32, BF16)
_ELEMENTARY: dict[str, Function] = {
    "exp": torch.exp, "sin": torch.sin, "tanh": torch.tanh, "erf": torch.erf,
    "sigmoid": torch.sigmoid, "expm1": torch.expm1, "gelu": F.gelu,
    "log": lambda x: torch.log(x.abs()), "log1p": lambda x: torch.log1p(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs()), "pow": lambda x: x.abs() ** 2.5,
}  # fmt: skip


def pointwise() -> Iterator[Case]:
    """Chains and single functions."""
    yield from kernel("pointwise chain", chain, (SMALL, MEDIUM, LARGE, HUGE), TWO)
    yield from kernel("pointwise chain", chain, (LARGE,), TWO, (BF16,))
    yield from kernel("gelu + residual", residual_gelu, (SMALL, LARGE), TWO, BOTH)
    yield from kernel("gelu + residual", residual_gelu, (MEDIUM, LARGE), TWO, backward=True)
    yield from kernel("silu gate", gated, (LARGE,), TWO, BOTH)
    yield from kernel("silu gate", gated, (LARGE,), TWO, backward=True)
    for name, function in _ELEMENTARY.items():
        yield from kernel(name, function, ((1000, 1000),))


def reductions() -> Iterator[Case]:
    """Along each axis, of few and of many elements."""
    square_sum = lambda dim: lambda x: (x * x).sum(dim)  # noqa: E731
    yield from kernel("sum of squares", lambda x: (x * x).sum(), (SMALL, LARGE, HUGE))
    yield from kernel("sum over rows", square_sum(0), (SMALL, LARGE, HUGE))
    yield from kernel("sum over columns", square_sum(1), (SMALL, LARGE, HUGE))
    yield from kernel("sum over columns", square_sum(1), (LARGE,), dtypes=(BF16,))
    yield from kernel("sum over the middle", square_sum(1), ((64, 512, 64),))
    yield from kernel("mean of few", lambda x: x.mean(-1), ((262144, 8),))
    yield from kernel("maximum along rows", lambda x: x.amax(1), (LARGE,))
    yield from kernel("maximum along columns", lambda x: x.amax(0), (LARGE,))
    yield from kernel("variance", lambda x: x.var(1), (LARGE,))
    yield from kernel("argmax", lambda x: x.argmax(1), (LARGE,))
    yield from kernel("logsumexp", lambda x: x.logsumexp(1), (LARGE,))
    yield from kernel("running sum", lambda x: x.cumsum(1), (LARGE,))


def normalizations() -> Iterator[Case]:
    """Softmax and norms."""
    yield from kernel("softmax", softmax, (SMALL, MEDIUM, LARGE))
    yield from kernel("softmax", softmax, (LARGE,), dtypes=(BF16,))
    yield from kernel("softmax", softmax, (MEDIUM, LARGE), backward=True)
    yield from kernel("log softmax", lambda x: F.log_softmax(x, -1), (LARGE,))
    yield from kernel("masked softmax", attention_weights, ((8, 4, 128, 128),), masked)
    yield from kernel("rms norm", rms_norm, (LARGE,), with_weight, BOTH)
    yield from kernel("rms norm", rms_norm, (LARGE,), with_weight, backward=True)
    for shape in (SMALL, MEDIUM, LARGE):
        yield from layer("layer norm", nn.LayerNorm, shape, width=shape[-1])
    yield from layer("batch norm", nn.BatchNorm2d, (16, 64, 32, 32), width=64)
    yield from layer("group norm", lambda c: nn.GroupNorm(8, c), (16, 64, 32, 32), width=64)
    yield from kernel("cross entropy", F.cross_entropy, (SMALL, MEDIUM, LARGE), labelled)
    yield from kernel("cross entropy", F.cross_entropy, (MEDIUM, LARGE), labelled, backward=True)


def movement() -> Iterator[Case]:
    """Gather and scatter, joints, transposes, broadcasts, dropout, rotary embedding."""
    yield from kernel("rotary embedding", rotary, ((4, 8, 256, 64),), angled, BOTH)
    yield from kernel("rotary embedding", rotary, ((4, 8, 256, 64),), angled, backward=True)
    yield from kernel("gather", lambda x, i: x.gather(1, i) + 1, (LARGE,), indexed)
    yield from kernel("select rows", lambda x, i: x[i] * 2, (LARGE,), rows_of)
    yield from kernel("embedding", embed, ((4096, 256),), tokens)
    yield from kernel("embedding", embed, ((4096, 256),), tokens, backward=True)
    yield from kernel("scatter add", scattered, (MEDIUM,), indexed)
    yield from kernel("cat", joined, (SMALL, LARGE), TWO)
    yield from kernel("stack", stacked, (LARGE,), TWO)
    yield from kernel("pad", padded, ((16, 16, 64, 64),))
    yield from kernel("transpose", lambda x: x.t().contiguous(), (SMALL, LARGE))
    yield from kernel("transpose and add", lambda x, y: x.t() + y, ((1024, 1024),), TWO)
    yield from kernel("heads first", heads_first, ((8, 256, 8, 64),), dtypes=BOTH)
    yield from kernel("outer product", outer, (LARGE,), TWO)
    yield from kernel("bias + relu", biased, (SMALL, HUGE), with_weight)
    yield from kernel("bias + relu", biased, (LARGE,), with_weight, (BF16,))
    yield from kernel("bias + relu", biased, (LARGE,), with_weight, backward=True)
    yield from kernel("dropout", dropout, (LARGE,), TWO, draws=True)
    yield from kernel("dropout", dropout, (LARGE,), TWO, backward=True, draws=True)


def cases() -> list[Case]:
    """Every kernel."""
    return [*pointwise(), *reductions(), *normalizations(), *movement()]
