"""Functions of `torch` and `torch.nn.functional`, factories, conversions, random numbers."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import minitorch2
from minitorch2 import stages
from tests.unit.bytecode.torch_values.programs import check_row, table

FUNCTIONS = [
    "torch.cat([x, x]), torch.stack([x, x], 1), torch.cat((x, i)), torch.hstack([x, x]), torch.vstack((x, x))",
    "torch.einsum('ij,jk->ik', x, q), torch.einsum('ij,ij->i', x, x), torch.einsum('...j,j', x, y)",
    "torch.where(m, x, -x), torch.where(x > 0, 1, 0), torch.where(m, x, z)",
    "torch.addmm(q, q, q), torch.baddbmm(b @ b.mT, b, b.mT), torch.bmm(b, b.mT), torch.chain_matmul(q, q)",
    "torch.max(x), torch.max(x, 1), torch.max(x, i), torch.maximum(x, y), torch.aminmax(x)",
    "hasattr(x.max(0), '_fields'), x.max(0).__match_args__",
    "torch.max(x, dim=1).indices, torch.sort(x, dim=0)[1], torch.topk(x, 2, dim=1).values",
    "torch.min(x, 0, keepdim=True)",
    "torch.split(x, 2), torch.chunk(x, 2, 1), torch.unbind(x), torch.tensor_split(x, (1, 2))",
    "torch.meshgrid(y, y, indexing='ij'), torch.cartesian_prod(y, y), torch.combinations(y)",
    "torch.broadcast_tensors(x, y), torch.broadcast_to(y, (3, 4)), torch.atleast_2d(y), torch.atleast_1d(z, y)",
    "torch.block_diag(q, x), torch.kron(q, x), torch.tensordot(x, q, 1), torch.cdist(x, q)",
    "torch.stack(lst), torch.stack([t for t in lst]), torch.cat(lst), torch.stack(tuple(x))",
    "torch.clamp(x, 0, 1), torch.clamp(x, min=y), torch.lerp(x, x, 0.3), torch.pow(2, x), torch.pow(x, 2)",
    "torch.narrow(x, 0, 1, 2), torch.select(x, 0, 1), torch.index_select(x, 0, j), torch.gather(x, 1, i % 4)",
    "torch.narrow(x, 0, s - 3, 2)",
    "torch.searchsorted(y.sort()[0], x), torch.bucketize(x, y.sort()[0]), torch.histc(x, 4)",
    "torch.norm(x), torch.norm(x, dim=1), torch.linalg.norm(x), torch.linalg.vector_norm(x, 2, 1)",
    "torch.linalg.inv(q + torch.eye(4)), torch.linalg.det(q), torch.linalg.qr(q), torch.linalg.solve(q + torch.eye(4), y)",
    "torch.linalg.svdvals(x), torch.linalg.matrix_norm(x), torch.linalg.multi_dot([x, q, q])",
    "torch.fft.fft(y), torch.fft.rfft(y), torch.fft.ifft(c), torch.fft.fftfreq(4), torch.fft.fftshift(y)",
    "torch.special.erf(x), torch.special.logit(torch.sigmoid(x)), torch.special.entr(x), torch.special.i0(x)",
    "torch.cov(x), torch.corrcoef(x)",
    "torch.logical_and(m, m), torch.isclose(x, x), torch.isin(i, j), torch.any(m), torch.all(m, 1)",
    "torch.diff(x), torch.trapezoid(x), torch.cumsum(x, 0), torch.cummax(x, 0), torch.flip(x, (0,)), torch.roll(x, 1)",
    "torch.triu(q), torch.tril(q), torch.diag(y), torch.diagonal(q), torch.trace(q), torch.rot90(q)",
    "torch.std_mean(x), torch.var_mean(x, dim=1), torch.std(x, 1), torch.median(x)",
    "torch.complex(x, x), torch.polar(abs(x), x), torch.view_as_real(c), torch.real(c), torch.angle(c), torch.abs(c)",
    "torch.view_as_complex(x.view(6, 2))",
    "torch.squeeze(x[None]), torch.unsqueeze(x, 0), torch.transpose(x, 0, 1), torch.permute(b, (1, 2, 0)), torch.t(x)",
    "torch.reshape(x, (4, 3)), torch.flatten(b, 1), torch.movedim(b, 0, 1), torch.swapdims(b, 0, 1), torch.ravel(x)",
    "torch.nan_to_num(x), torch.sign(x), torch.heaviside(x, y), torch.erf(x), torch.lgamma(abs(x) + 1), torch.digamma(abs(x) + 1)",
    "torch._foreach_add(lst, 1), torch._foreach_mul(lst, lst)",
    "torch._foreach_add_(lst, 1)\nlst",
    "torch._foreach_mul_(lst, [2.0, 3.0])\nlst",
    "torch.ops.aten.add.Tensor(x, y), torch.ops.aten.mul(x, 2), torch.ops.aten.relu_(x)",
    "torch.conj(c) * 2",
    "torch.scatter(x, 1, i % 4, y.expand(3, 4)), torch.scatter_add(x, 1, i % 4, x), torch.scatter_reduce(x, 1, i % 4, x, 'sum')",
    "torch.repeat_interleave(x, 2, dim=0), torch.repeat_interleave(x, 2), torch.tile(x, (2,))",
    "torch.renorm(x, 2, 0, 1.0)",
    "torch.count_nonzero(x), torch.numel(x), torch.mean(x, dtype=torch.float64), torch.sum(i), torch.prod(x)",
    "torch.add(x, y, out=torch.empty(3, 4))",
    "t = torch.empty(3, 4)\ntorch.mul(x, 2, out=t)\nt",
    "torch.mul(x, 2, out=x)\nx",
    "t = torch.empty(0)\ntorch.add(x, 1, out=t)\nt",
    "t = torch.empty(0)\ntorch.mm(x, x.mT, out=t)\nt.shape[0], t.view(-1), t @ x",
    "a, n_ = torch.empty(3), torch.empty(3, dtype=torch.long)\ntorch.max(x, 1, out=(a, n_))\na, n_",
    "torch.cat([x, x], out=torch.empty(6, 4))",
    "torch.matmul(x, q), torch.mm(x, q), torch.mv(q, y), torch.dot(y, y), torch.outer(y, y), torch.inner(x, y)",
    "torch.relu(x), torch.relu_(x), torch.softmax(x, 0), torch.log_softmax(x, -1), torch.sigmoid(x), torch.tanh(x)",
    "torch.nn.functional.relu(x), torch.tensor_split(x, 2), torch.unflatten(x, 1, (2, 2))",
    "torch.float_power(x, 2), torch.true_divide(x, 2), torch.floor_divide(x, 2), torch.remainder(x, 2), torch.fmod(x, 2)",
    "torch.cross(x[:, :3], x[:, 1:], dim=1), torch.logcumsumexp(x, 0), torch.logaddexp(x, x), torch.hypot(x, x)",
    "torch.vander(y), torch.tril_indices(3, 3), torch.triu_indices(3, 3), torch.eye(3), torch.vmap if False else torch.ones(1)",
    "torch.clone(x), torch.detach(w) + 1, torch.numel(x), torch.square(x), torch.rsub(x, 1), torch.positive(x)",
    "torch.stft(torch.linspace(0, 1, 64), 16, return_complex=True)",
    "torch.result_type(x, 2.0), torch.promote_types(torch.int8, torch.uint8), x + 1",
    "torch.nn.init.zeros_(x), torch.nn.init.ones_(x), torch.nn.init.constant_(x, 3)",
    "torch.nn.init.uniform_(x), torch.nn.init.normal_(x), torch.nn.init.xavier_uniform_(x), torch.nn.init.kaiming_normal_(x)",
    "torch.nn.init.eye_(x)",
    "torch.add(input=x, other=y, alpha=2), torch.sum(input=x, dim=0), torch.sub(x, 1)",
    "torch.concat([x, x]), torch.concatenate([x, x], dim=1), torch.column_stack((y, y)), torch.dstack([x, x])",
    "torch.argsort(x), torch.argmax(x, 0), torch.msort(x), torch.kthvalue(x, 2), torch.mode(x)",
    "torch.hann_window(4), torch.hamming_window(4), torch.blackman_window(4), torch.kaiser_window(4)",
]

FUNCTIONAL = [
    "F.relu(x), F.gelu(x), F.gelu(x, approximate='tanh'), F.silu(x), F.elu(x), F.leaky_relu(x, 0.1), F.mish(x)",
    "F.relu(x, inplace=True), x",
    "F.softmax(x, dim=-1), F.log_softmax(x, 1), F.softmin(x, 0), F.softplus(x), F.hardtanh(x), F.hardswish(x), F.celu(x)",
    "F.linear(x, q), F.linear(x, q, y), F.bilinear(x, x, torch.ones(2, 4, 4))",
    "F.layer_norm(x, (4,)), F.layer_norm(x, x.shape[-1:], y, y), F.group_norm(im, 3), F.instance_norm(im), F.rms_norm(x, (4,))",
    "F.batch_norm(im, torch.zeros(3), torch.ones(3)), F.local_response_norm(im, 2)",
    "r = torch.zeros(3)\nF.batch_norm(im, r, torch.ones(3), training=True), r",
    "F.conv2d(im, torch.ones(2, 3, 3, 3)), F.conv2d(im, torch.ones(3, 1, 3, 3), groups=3, padding='same'), F.conv_transpose2d(im, torch.ones(3, 2, 2, 2))",
    "F.conv1d(b, torch.ones(2, 3, 2)), F.max_pool2d(im, 2), F.avg_pool2d(im, 2), F.adaptive_avg_pool2d(im, 1), F.adaptive_max_pool2d(im, (2, 2))",
    "F.max_pool2d(im, 2, return_indices=True), F.lp_pool2d(im, 2, 2), F.max_pool1d(b, 2), F.avg_pool1d(b, 2)",
    "F.interpolate(im, scale_factor=2), F.interpolate(im, size=(3, 3), mode='bilinear', align_corners=False), F.pixel_shuffle(torch.ones(1, 4, 2, 2), 2)",
    "F.pad(x, (1, 1)), F.pad(x, (1, 1, 0, 2), value=3.0), F.pad(im, (1, 1, 1, 1), mode='reflect'), F.unfold(im, 2), F.fold(F.unfold(im, 2), (5, 5), 2)",
    "F.embedding(j, x), F.one_hot(j, 4), F.embedding_bag(j, x, torch.tensor([0])), F.embedding(j, x, padding_idx=0)",
    "F.one_hot(j, num_classes=3)",
    "F.cross_entropy(x, j), F.nll_loss(F.log_softmax(x, 1), j), F.cross_entropy(x, x.softmax(1), label_smoothing=0.1), F.cross_entropy(x, j, reduction='none')",
    "F.mse_loss(x, x + 1), F.l1_loss(x, x), F.smooth_l1_loss(x, x + 3), F.huber_loss(x, x + 3), F.binary_cross_entropy_with_logits(x, x.sigmoid()), F.binary_cross_entropy(x.sigmoid(), x.sigmoid())",
    "F.kl_div(x.log_softmax(1), x.softmax(1), reduction='batchmean'), F.cosine_embedding_loss(x, x, torch.ones(3)), F.margin_ranking_loss(x, x, x), F.triplet_margin_loss(x, x + 1, x - 1), F.hinge_embedding_loss(x, x.sign())",
    (
        "F.gaussian_nll_loss(x, x, torch.ones(3, 4)), F.poisson_nll_loss(x, x.abs()), F.multi_margin_loss(x, j), F.soft_margin_loss(x, x.sign())",
        "data-dependent",
    ),
    (
        "F.ctc_loss(torch.randn(5, 1, 4).log_softmax(2), torch.tensor([[1, 2]]), (5,), (2,))",
        "data-dependent",
    ),
    "F.dropout(x, 0.5), F.dropout(x, 0.5, training=False), F.alpha_dropout(x, 0.5), F.dropout2d(im), F.feature_alpha_dropout(x, 0.2)",
    "F.scaled_dot_product_attention(b, b, b), F.scaled_dot_product_attention(b, b, b, is_causal=True), F.scaled_dot_product_attention(b, b, b, attn_mask=torch.ones(3, 3).tril())",
    "F.cosine_similarity(x, x), F.pairwise_distance(x, x + 1), F.normalize(x), F.normalize(x, p=1, dim=0), F.pdist(x)",
    "F.gumbel_softmax(x), F.gumbel_softmax(x, hard=True), F.rrelu(x, training=True), F.threshold(x, 0.1, 20), F.glu(x), F.logsigmoid(x), F.hardsigmoid(x), F.tanhshrink(x)",
    "F.grid_sample(im, torch.zeros(2, 3, 3, 2), align_corners=False), F.affine_grid(torch.eye(2, 3)[None], (1, 1, 3, 3), align_corners=False)",
    "F.channel_shuffle(torch.ones(1, 4, 2, 2), 2), F.pixel_unshuffle(torch.ones(1, 1, 4, 4), 2), F.prelu(x, torch.tensor(0.2)), F.upsample(im, scale_factor=2)",
    "F.sigmoid(x), F.tanh(x), F.relu6(x), F.selu(x), F.softsign(x), F.softshrink(x), F.hardshrink(x)",
    "F.multi_head_attention_forward(b, b, b, 4, 2, torch.ones(12, 4), torch.zeros(12), None, None, False, 0.0, torch.eye(4), torch.zeros(4))",
]

FACTORIES = [
    "torch.zeros(3), torch.ones(2, 3), torch.full((2,), 7), torch.empty(0), torch.eye(2), torch.zeros((2, 2)), torch.zeros(size=(1,))",
    "torch.arange(5), torch.arange(1, 7, 2), torch.arange(0, 1, 0.25), torch.linspace(0, 1, 5), torch.logspace(0, 1, 3), torch.range(0, 2)",
    "torch.arange(x.shape[0]), torch.arange(x.size(1), device=x.device) + x, torch.arange(s)",
    "torch.zeros_like(x), torch.ones_like(i, dtype=torch.float32), torch.full_like(x, 3), torch.empty_like(x).zero_(), torch.rand_like(x)",
    "torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.bool), torch.zeros(2, dtype=torch.complex64), torch.ones(2, requires_grad=False)",
    "torch.tensor(3), torch.tensor(3.5), torch.tensor([1, 2]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor(True), torch.tensor([])",
    "torch.tensor(1 + 2j), torch.tensor([1, 2.5]), torch.tensor((1, 2)), torch.tensor([True, False]), torch.tensor(3, dtype=torch.int8)",
    "torch.tensor(s), torch.tensor([s, s + 1]), torch.tensor(f), torch.tensor(x.shape), torch.tensor([x.shape[0], 2.0])",
    "torch.tensor(x.shape[0]) + x, torch.tensor(f * 2) * x, x + torch.tensor([1.0, 2, 3, 4])",
    "torch.tensor(x), torch.tensor(x, dtype=torch.float64)",
    "torch.tensor(z), torch.tensor(w.detach())",
    "torch.as_tensor(x), torch.as_tensor([1, 2]), torch.as_tensor(3.0), torch.as_tensor(x, dtype=torch.int64), torch.asarray(x)",
    "torch.scalar_tensor(3.0), torch.scalar_tensor(2, dtype=torch.int64), torch.Tensor([1, 2]), torch.FloatTensor([1, 2]), torch.LongTensor([1, 2])",
    "torch.Tensor(2, 3).shape, torch.Tensor(0), torch.IntTensor([1])",
    "torch.BoolTensor([True, False]), torch.DoubleTensor([1.0])",
    "torch.empty_strided((2, 2), (1, 2)).zero_(), torch.empty_permuted((2, 3), (1, 0)).zero_()",
    "x.new_tensor([1.0, 2.0]), x.new_tensor(3), x.new_tensor(x.shape)",
    "torch.zeros(x.shape), torch.zeros(*x.shape), torch.zeros(x.size()[0], 2), torch.ones(x.shape[:1])",
    "torch.ones(2, 3, names=None)",
    "nn.Parameter(x)",
    "nn.Parameter(torch.ones(3)) * 2",
    "nn.Parameter(x, requires_grad=False)",
    "nn.Buffer(x)",
    ("t = nn.Parameter(torch.zeros(4))\nx + t, t", "leaf-made-inside"),
    "torch.from_numpy(n) + 1",
    "torch.get_default_dtype(), torch.zeros(1)",
]

RANDOM = [
    "torch.rand(3), torch.randn(2, 2), torch.randint(0, 5, (3,)), torch.randperm(4), torch.normal(0.0, 1.0, (2,)), torch.bernoulli(torch.full((3,), 0.5))",
    "torch.randn_like(x), torch.randint_like(i, 5), torch.rand_like(x, dtype=torch.float64), torch.normal(x, 1.0), torch.normal(0.0, abs(x))",
    "torch.manual_seed(3)\ntorch.rand(2)",
    "torch.multinomial(torch.sigmoid(x), 2), torch.poisson(abs(x)), x + torch.randn(4)",
    "t = torch.rand(3)\nt2 = torch.rand(3)\nt, t2",
    "F.dropout(x) + F.dropout(x)",
    "g = torch.Generator().manual_seed(3)\ntorch.rand(3, generator=g)",
    "torch.initial_seed() and x + 1",
    "r = torch.get_rng_state()\nt = torch.rand(2)\ntorch.set_rng_state(r)\nt, torch.rand(2)",
    "with torch.random.fork_rng():\n    t = torch.rand(2)\nt, torch.rand(2)",
    "torch.default_generator.manual_seed(5)\ntorch.rand(2)",
]


@table(FUNCTIONS)
def test_functions(row):
    check_row(row)


@table(FUNCTIONAL)
def test_functional(row):
    check_row(row)


@table(FACTORIES)
def test_factories(row):
    check_row(row)


@table(RANDOM)
def test_random(row):
    check_row(row)


@pytest.mark.parametrize("function", [F.cross_entropy, F.mse_loss])
def test_a_function_of_torch_itself_is_one_graph(function):
    logits, probabilities = torch.randn(4, 4), torch.rand(4, 4)
    explanation = minitorch2.explain(function)(logits, probabilities)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


@pytest.mark.parametrize("numbers", [(7, 2), (7.5, 2), (True, 3), (7.5, 2.5)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_of_two_numbers(numbers, dynamic):
    """A kernel once took its device from its tensors, of which there are none."""

    def function(a, b):
        whole = torch.floor_divide(a, b), torch.div(a, b, rounding_mode="trunc")
        return torch.div(a, b), torch.mul(a, b), torch.add(a, b, alpha=2), *whole

    compiled = minitorch2.compile(function, fullgraph=True, dynamic=dynamic)
    assert_close(compiled(*numbers), function(*numbers))


def test_a_module_that_normalizes_by_the_root_mean_square_is_one_graph():
    """The elements of its shape, which nobody had read yet, once had no type and broke the graph."""
    module, x = torch.nn.RMSNorm(4), torch.randn(3, 4)
    assert_close(minitorch2.compile(module, fullgraph=True)(x), module(x))


@pytest.mark.parametrize(
    "options",
    [{}, {"center": False}, {"normalized": True}, {"onesided": False}, {"length": 50}],
    ids=str,
)
def test_the_inverse_of_a_spectrogram_is_one_graph(options):
    window = torch.hann_window(16) + 0.1
    forward = {k: v for k, v in options.items() if k != "length"}

    def f(x, window):
        spectra = torch.stft(x, 16, 4, window=window, return_complex=True, **forward)
        return torch.istft(spectra, 16, 4, window=window, **options)

    x = torch.randn(2, 64)
    with stages.collect() as log:
        got = minitorch2.compile(f, backend="eager", fullgraph=True)(x, window)
    torch.testing.assert_close(got, f(x, window))
    assert log.counts["graphs"] == 1


@pytest.mark.parametrize("n", [10, 9])
def test_a_whole_spectrum_that_is_not_symmetric_is_read_as_eager_reads_it(n):
    """Eager takes the first half of the frequencies, whatever the others say."""
    spectra = torch.randn(2, n, 5, dtype=torch.complex64)

    def f(spectra):
        return torch.istft(spectra, n, 3, window=torch.ones(n))

    torch.testing.assert_close(minitorch2.compile(f, fullgraph=True)(spectra), f(spectra))


def test_windows_that_do_not_overlap_raise_what_they_raise_in_eager():
    spectra = torch.stft(torch.randn(64), 16, window=torch.hann_window(16), return_complex=True)

    def f(spectra, window):
        return torch.istft(spectra, 16, 16, window=window)

    fast = minitorch2.compile(f, fullgraph=True)
    torch.testing.assert_close(fast(spectra, torch.ones(16)), f(spectra, torch.ones(16)))
    with pytest.raises(RuntimeError, match="window overlap add min"):
        fast(spectra, torch.zeros(16))
