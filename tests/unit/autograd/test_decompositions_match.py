"""Each decomposition against the operator it stands for, in every dtype the operator takes.

PyTorch's operator database is run eagerly, forward and backward, under a mode that meets each
operator where the tracer meets it (below autograd), and there computes both.
"""

import itertools
import warnings
from collections import Counter, defaultdict

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from minitorch2.autograd import DECOMPOSITIONS
from minitorch2.autograd.decompositions.public import PUBLIC
from tests.operators.compare import assert_equal, copied, samples_of
from tests.operators.sweep import OPERATORS

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool,
    torch.uint8, torch.complex64,
)  # fmt: skip
SAMPLES = 4
CALLS = 12
"""Most calls of one operator, with arguments of the same dtypes, that are compared."""

UNDEFINED = {torch.ops.aten.new_empty.default}


class Comparing(TorchDispatchMode):
    """Runs operators, and the decompositions of those that have one on copies of the arguments.

    `differences` maps an operator to what is different; `calls` counts, by operator and dtype.
    """

    def __init__(self):
        super().__init__()
        self.differences = defaultdict(list)
        self.calls = Counter()
        self.per_dtypes = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        rule = DECOMPOSITIONS.get(func)
        if rule is None or not self._is_new(func, args, kwargs):
            return func(*args, **kwargs)
        ours = tree_map_only(torch.Tensor, copied, (args, kwargs))
        wanted = func(*args, **kwargs)
        dtypes = [t.dtype for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        try:
            given = rule(*ours[0], **ours[1])
            if given is not NotImplemented:
                self.calls[func] += 1
                if func in WIDE_STATISTICS:
                    given = _rounded(given, wanted)
                assert_equal(given, wanted, values=func not in UNDEFINED)
                assert_equal(ours, (args, kwargs), part="argument")
        except Exception as error:
            shapes = [tuple(t.shape) for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
            text = f"{type(error).__name__}: {error} for {dtypes} {shapes}"
            self.differences[func].append(text)
        return wanted

    def _is_new(self, func, args, kwargs):
        leaves = tree_leaves((args, kwargs))
        if any(isinstance(x, torch.Tensor) and x.is_conj() for x in leaves):
            return False  # pending conjugates are resolved above this mode
        key = (func, *(x.dtype for x in leaves if isinstance(x, torch.Tensor)))
        self.per_dtypes[key] += 1
        return self.per_dtypes[key] <= CALLS


def _rounded(given, wanted):
    return tuple(a.to(b.dtype) for a, b in zip(given, wanted))


def run_database(mode, names):
    """Run samples of operators, and their derivatives, under the mode."""
    for name, dtype in itertools.product(names, DTYPES):
        op = OPERATORS[name]
        if dtype not in op.dtypes:
            continue
        backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        try:
            samples = samples_of(op, dtype, SAMPLES, backward)
        except Exception:  # some sample functions of the database fail for a dtype
            continue
        for sample in samples:
            run_sample(mode, op, sample, backward)


def run_sample(mode, op, sample, backward):
    try:
        with mode:
            result = op.op(sample.input, *sample.args, **sample.kwargs)
            outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            outputs = [t for t in outputs if t.requires_grad]
            if backward and outputs:
                torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    except Exception:
        return  # eager refuses the sample


REACHING = """
    _native_batch_norm_legit __rsub__ addcdiv addcmul baddbmm copysign diff fill lerp logit
    logsumexp lu_unpack masked_fill nan_to_num native_batch_norm native_dropout_backward
    native_layer_norm new_full new_ones ones_like quantile sigmoid split:list_args std std_mean
    stft tanh tril triu unbind unravel_index var var_mean xlogy zeros_like
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
    nn.functional.cross_entropy nn.functional.elu nn.functional.gelu nn.functional.glu
    nn.functional.group_norm nn.functional.hardsigmoid nn.functional.hardswish
    nn.functional.hardtanh nn.functional.huber_loss nn.functional.leaky_relu nn.functional.mish
    nn.functional.mse_loss nn.functional.multi_head_attention_forward
    nn.functional.multilabel_soft_margin_loss nn.functional.normalize nn.functional.prelu
    nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.smooth_l1_loss
    nn.functional.softplus nn.functional.tanhshrink nn.functional.threshold combinations corrcoef
    full_like diagonal __getitem__ narrow nn.functional.nll_loss masked_scatter scatter_reduce:sum
    scatter_reduce:mean polygamma:polygamma_n_0 nn.functional.fractional_max_pool2d
    nn.functional.max_pool3d nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
    nextafter frexp
""".split()  # noqa: SIM905  (reads as a table)
"""Operators of the database that, with their derivatives, reach nearly every decomposition."""

aten = torch.ops.aten

# Composite operators, those of other devices, and lists of tensors: reached by hand, below.
UNREACHED = {
    torch.ops.aten.gather.default: (torch.ones(5), 0, torch.zeros(2, 0, dtype=torch.long)),
    torch.ops.aten.scatter_add.default: (
        torch.ones(5), 0, torch.zeros(2, 0, dtype=torch.long), torch.ones(5),
    ),
    aten.square.default: (torch.tensor([-2, 3]),),
    aten.adaptive_max_pool2d.default: (torch.randn(2, 4, 6), [2, 3]),
    aten.adaptive_max_pool3d.default: (torch.randn(2, 4, 6, 3), [2, 1, 3]),
    aten.fill.Tensor: (torch.zeros(2, 3), torch.tensor(2.5)),
    aten.zero.default: (torch.randn(3, 4).t(),),
    aten.lerp.Tensor: (torch.randn(4), torch.randn(4), torch.rand(4)),
    aten._stack.default: ([torch.randn(3), torch.randn(3)], 1),
    aten._unsafe_index.Tensor: (torch.randn(5, 2), [torch.tensor([4, 0])]),
    aten.unsafe_split.Tensor: (torch.randn(7, 2), 3),
    aten.unsafe_split_with_sizes.default: (torch.randn(2, 7), [3, 0, 4], -1),
    aten._reshape_alias.default: (torch.randn(6), [2, 3], [3, 1]),
    aten._index_put_impl.default: (torch.zeros(4), [torch.tensor([1])], torch.ones(1)),
    aten._native_batch_norm_legit_no_training.default: (
        torch.randn(4, 3), None, None, torch.zeros(3), torch.ones(3), 0.1, 1e-5),
    aten._native_batch_norm_legit.no_stats: (torch.randn(4, 3), None, None, True, 0.1, 1e-5),
    aten._batch_norm_with_update.default: (
        torch.randn(4, 3), None, None, torch.zeros(3), torch.ones(3), 0.1, 1e-5),
    aten.max_pool2d_with_indices_backward.default: (
        torch.randn(2, 1, 2), torch.randn(2, 2, 4), [2, 2], [2, 2], [0, 0], [1, 1], False,
        torch.tensor([[[5, 2]], [[0, 7]]])),
}  # fmt: skip
_COPIES = {
    "view": ([2, 12],), "permute": ([2, 0, 1],), "transpose": (0, -1), "expand": ([4, 1, 4, 6],),
    "unsqueeze": (1,), "squeeze": (), "squeeze.dim": (0,), "squeeze.dims": ([0, 1],),
    "select": (1, -1), "slice": (1, 1, 4, 2), "split": (4, 2), "split_with_sizes": ([1, 5], 2),
    "unbind": (1,), "diagonal": (1, 1, 2), "unfold": (2, 3, 2), "alias": (), "detach": (),
    "as_strided": ([2, 2], [1, 6], 3), "lift_fresh": (),
}  # fmt: skip
for _name, _arguments in _COPIES.items():
    _packet, _, _overload = _name.partition(".")
    _copies = getattr(aten, f"{_packet}_copy")
    _operator = getattr(_copies, _overload or _copies.overloads()[0])
    UNREACHED[_operator] = (torch.randn(1, 4, 6), *_arguments)
UNREACHED[aten.t_copy.default] = (torch.randn(4, 6),)
NOT_HERE = {
    aten.max_pool2d_with_indices.default: "left to the library on a CPU; see test_pooling",
    aten.cudnn_batch_norm.default: "needs cuDNN",
    aten.cudnn_batch_norm_backward.default: "needs cuDNN",
    aten.mkldnn_rnn_layer.default: "its workspace has bytes of no meaning; see test_recurrent",
}

# They keep float32 statistics of half-precision inputs, where eager on the CPU rounds them.
WIDE_STATISTICS = {
    aten.native_layer_norm.default, aten.native_group_norm.default, aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
}  # fmt: skip


@pytest.fixture(scope="module")
def compared():
    """The database, run once."""
    mode = Comparing()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_database(mode, REACHING)
    return mode


OPERATORS_WITH_RULES = [o for o in DECOMPOSITIONS if "_foreach_" not in str(o) and o not in PUBLIC]


@pytest.mark.parametrize("operator", OPERATORS_WITH_RULES, ids=str)
def test_decomposition_matches_its_operator(operator, compared):
    if operator in UNREACHED:
        args = UNREACHED[operator]
        ours = tree_map_only(torch.Tensor, copied, args)
        assert_equal(DECOMPOSITIONS[operator](*ours), operator(*args))
        return
    if operator in NOT_HERE:
        pytest.skip(NOT_HERE[operator])
    assert compared.calls[operator], "no sample reaches it"
    assert not compared.differences[operator], compared.differences[operator][0]


LISTS = [o for o in DECOMPOSITIONS if "_foreach_" in str(o)]


@pytest.mark.parametrize("operator", LISTS, ids=str)
def test_operators_on_lists_match(operator):
    lists = [[torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5] for _ in range(4)]
    values = {
        "Tensor[]": iter(lists).__next__,
        "Scalar": lambda: 2.0,
        "Scalar[]": lambda: [2.0, 3.0],
        "Tensor": lambda: torch.tensor(2.0),
    }
    given = [a for a in operator._schema.arguments if not a.kwarg_only and a.name != "dtype"]
    args = [values[_kind(argument)]() for argument in given]
    assert_equal(DECOMPOSITIONS[operator](*args), operator(*args))


def _kind(argument):
    text = str(argument.type)
    number = "number" in text or "Scalar" in text or "float" in text
    if "List" in text:
        return "Scalar[]" if number else "Tensor[]"
    return "Scalar" if number else "Tensor"


CORNERS = [-20.0, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 20.0, 20.5, 100.0]
"""Numbers at which a piecewise function goes over to its next piece."""

PIECEWISE = {
    name: getattr(torch.nn.functional, name)
    for name in """hardswish hardtanh relu relu6 hardsigmoid hardshrink softshrink leaky_relu elu
    celu selu softplus logsigmoid mish silu gelu""".split()  # noqa: SIM905  (reads as a table)
} | {
    "threshold": lambda x: torch.nn.functional.threshold(x, 1.0, 5.0),
    "clamp": lambda x: x.clamp(-1, 3),
    "clamp by a tensor": lambda x: x.clamp(min=torch.tensor(1.0, dtype=x.dtype)),
    "smooth_l1_loss": lambda x: torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x)),
    "huber_loss": lambda x: torch.nn.functional.huber_loss(x, torch.zeros_like(x), delta=3.0),
    "maximum": lambda x: torch.maximum(x, x.detach()),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_gradients_where_two_pieces_meet(name):
    """The gradient of `hardswish` at 3 was once that of the piece below: random samples miss it."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        mode, x = Comparing(), torch.tensor(CORNERS, dtype=dtype, requires_grad=True)
        with mode:
            PIECEWISE[name](x).sum().backward()
        assert not mode.differences, mode.differences


def test_losses_of_what_is_no_number_have_no_number_as_gradient():
    """The gradient of `smooth_l1_loss` was once 0 there, which hides that a model has diverged."""
    for loss in ("smooth_l1_loss", "huber_loss", "l1_loss", "mse_loss"):
        mode, x = Comparing(), torch.full((40,), torch.nan, requires_grad=True)
        with mode:
            getattr(torch.nn.functional, loss)(x, torch.zeros(40)).backward()
        assert not mode.differences, mode.differences
