"""Partitions: what is saved, what is recomputed, and how long it takes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import minitorch2
from minitorch2 import config, stages
from minitorch2.autograd import default_partition, min_cut_partition
from minitorch2.autograd.partition import Partition, SavedInput
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.verify import verify
from tests.unit.autograd.programs import check, compiled, joint_of, operators, partition_of
from tests.unit.work import python_calls

aten = torch.ops.aten


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, requires_grad=True)


def sin_sin(x: Any) -> Any:
    return (x.sin().sin(),)


def test_default_is_the_slides_split() -> None:
    parts = partition_of(sin_sin, [leaf(4)], default_partition)
    assert operators(parts.forward) == ["sin", "sin", "cos", "cos"]
    assert operators(parts.backward) == ["mul", "mul"]
    assert parts.saved_tensors == 2
    assert len(parts.forward.graph.output_node.args[0]) == 3


def test_min_cut_saves_one_tensor_the_input() -> None:
    parts = partition_of(sin_sin, [leaf(4)])
    assert parts.saved_tensors == 1 and parts.saved == (SavedInput(0),)
    assert operators(parts.forward) == ["sin", "sin"]
    assert operators(parts.backward) == ["sin", "cos", "mul", "cos", "mul"]


def saved_names(parts: Partition) -> set[str]:
    return {n.name for n in parts.saved_nodes}


@pytest.mark.parametrize(
    ("program", "banned"),
    [
        (lambda x: (F.dropout(x.sin(), 0.5),), "bernoulli"),
        (lambda x: ((x @ x).sin(),), "mm"),
        (lambda x: ((x * x.sum(0)).sin(),), "sum"),
        (lambda x: (F.conv1d(x, x[:, :, None]).sin(),), "convolution"),
        (lambda x: (x.cumsum(0).sin(),), "cumsum"),
    ],
)
def test_costly_and_random_operators_run_once(program: Any, banned: str) -> None:
    parts = partition_of(program, [leaf(4, 4)])
    assert banned in operators(parts.forward)
    expected = 2 if banned in ("mm", "sum", "cumsum") else 0  # of backward's own
    assert operators(parts.backward).count(banned) <= expected
    assert (
        any(banned in n.name or banned in str(n.all_input_nodes) for n in parts.saved_nodes)
        or parts.saved_nodes
    )


def test_random_operators_without_reader_stay_in_forward() -> None:
    def program(x: Any) -> Any:
        torch.rand(3)
        return (x.sin(),)

    parts = partition_of(program, [leaf(4)])
    assert operators(parts.forward) == ["rand", "sin"] and "rand" not in operators(parts.backward)


def test_recomputed_values_come_right_before_their_reader() -> None:
    def program(x: Any) -> Any:
        for _ in range(4):
            x = F.gelu(x @ x)
        return (x,)

    parts = partition_of(program, [leaf(4, 4)])
    names = operators(parts.backward)
    assert names.index("erf") < names.index("mm") < len(names) - 1 - names[::-1].index("erf")


def test_a_view_of_a_value_in_registers_costs_as_much_as_the_value() -> None:
    def program(x: Any, y: Any) -> Any:
        left, right = (x @ x + y @ y).chunk(2, 1)
        return (left.sigmoid() * right.tanh(),)

    parts = partition_of(program, [leaf(4, 4), leaf(4, 4)])
    assert {"sigmoid", "tanh"} <= saved_names(parts)
    assert not {"sigmoid", "tanh", "slice"} & {*operators(parts.backward)}


def test_min_cut_never_saves_more_bytes() -> None:
    def program(x: Any, w: Any, g: Any, b: Any) -> Any:
        return (F.gelu(F.layer_norm(x @ w, (8,), g, b)).softmax(-1) * torch.sigmoid(x),)

    inputs = [leaf(4, 8), leaf(8, 8), leaf(8), leaf(8)]

    def saved_bytes(parts: Partition) -> int:
        kept = [n.meta["val"] for n in parts.saved_nodes if n.op != "placeholder"]
        return sum(v.numel() * v.element_size() for v in kept)

    least = saved_bytes(partition_of(program, inputs, min_cut_partition))
    assert least < saved_bytes(partition_of(program, inputs, default_partition))


def kept_bytes(parts: Partition) -> int:
    kept = [n.meta["val"] for n in parts.saved_nodes if n.op != "placeholder"]
    return sum(v.numel() * v.element_size() for v in kept)


def deep(x: Any, *weights: Any) -> Any:
    for weight in weights:
        x = F.dropout(torch.tanh(x @ weight), 0.5)
    return (x,)


def test_a_smaller_memory_budget_keeps_less() -> None:
    inputs = [leaf(64, 8), *[leaf(8, 8) for _ in range(6)]]
    whole = kept_bytes(partition_of(deep, inputs))
    for budget in (0.75, 0.5):
        with config.patch(memory_budget=budget):
            parts = partition_of(deep, inputs)
            check(deep, inputs)
        assert kept_bytes(parts) <= budget * whole
        assert "mm" in {n.name for n in parts.backward.graph.nodes}
    with config.patch(memory_budget=0.0):
        least = partition_of(deep, inputs)
    assert {n.target for n in least.saved_nodes if n.op != "placeholder"} == {aten.ne.Scalar}
    assert operators(least.backward).count("bernoulli") == 0


def test_a_memory_budget_of_one_recomputes_nothing_costly() -> None:
    parts = partition_of(deep, [leaf(64, 8), leaf(8, 8), leaf(8, 8)])
    assert operators(parts.backward).count("mm") == 4  # those of the gradients


def test_the_input_of_max_pooling_is_not_kept() -> None:
    program = lambda x: (F.max_pool2d(x.sin() @ x, 2),)  # noqa: E731
    parts = partition_of(program, [torch.randn(1, 2, 4, 4, requires_grad=True)], min_cut_partition)
    kept = {tuple(n.meta["val"].shape) for n in parts.saved_nodes if n.op != "placeholder"}
    assert kept == {(1, 2, 2, 2)}  # where the largest were
    check(program, [torch.randn(1, 2, 4, 4, requires_grad=True)])


def test_masks_are_kept_as_bits() -> None:
    parts = partition_of(lambda x: (F.dropout(x, 0.5),), [leaf(8)])
    (saved,) = parts.saved_nodes
    assert saved.meta["val"].dtype is torch.bool


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(F.dropout((x @ w).softmax(-1), 0.3) @ w.t())


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return layer(layer(x, w) * 2, w).sin()


def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    inner = checkpoint(layer, x, w, use_reentrant=False)
    return checkpoint(layer, inner * 2, w, use_reentrant=False).sin()


def test_what_is_inside_of_a_checkpoint_is_computed_again() -> None:
    x, w = (torch.randn(*size, requires_grad=True) for size in ((16, 8), (8, 32)))
    kept, gradients, products = [], [], []
    for program in (layers, checkpointed):
        with stages.collect() as log:
            torch.manual_seed(1)
            result = minitorch2.compile(program, fullgraph=True)(x, w)
            saved = [t for t in result.grad_fn.saved_tensors if t is not None]
            kept.append(sum(t.nbytes for t in saved if not t.requires_grad))
            gradients.append(torch.autograd.grad(result.sum(), [x, w]))
        products.append(log.texts("backward graph.py")[0].count("aten.mm.default"))
    torch.testing.assert_close(*gradients)
    assert products[1] == products[0] + 2  # results of checkpoints are kept
    assert kept[1] < kept[0] / 3  # the masks, and what leads from one checkpoint to the next


def test_an_output_is_saved_rather_than_what_it_was_computed_of() -> None:
    parts = partition_of(lambda x, w: ((x @ w).sigmoid(),), [leaf(4, 4), leaf(4, 4)])
    assert saved_names(parts) == {"x", "w", "sigmoid"}


def test_the_cut_is_drawn() -> None:
    x = leaf(4)
    with stages.collect() as log:
        compiled(sin_sin, [x])
    (drawing,) = log.texts("cut.dot")
    assert 'forward_x -> backward_x [label="16 bytes", penwidth=2];' in drawing
    assert 'backward_sin [label="sin\\naten.sin", style=dashed];' in drawing
    assert drawing.count("{") == drawing.count("}") == 3


def test_written_inputs_are_saved_as_they_were() -> None:
    def program(x: Any, b: Any) -> Any:
        y = x * b.clone()
        b.zero_()
        return (y,)

    check(program, [leaf(3), torch.randn(3)])


def test_graphs_verify_and_gradients_without_tangents() -> None:
    for how in (min_cut_partition, default_partition):
        parts = partition_of(lambda x, y: (x + y.detach() * 0, y), [leaf(3), leaf(3)], how)
        verify(parts.forward)
        verify(parts.backward)


class Block(torch.nn.Module):
    """A transformer block."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).split(c, 2)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, t, c)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


def stack_program(layers: int) -> tuple[Any, list[torch.Tensor]]:
    model = torch.nn.Sequential(*[Block() for _ in range(layers)])
    names = [name for name, _ in model.named_parameters()]
    from minitorch2.autograd.lift import ModuleCall

    call = ModuleCall(model, tuple(names))
    return (lambda x, *parameters: (call(list(parameters), x),)), [
        torch.randn(2, 16, 64),
        *model.parameters(),
    ]


def test_a_transformer_block_matches_eager() -> None:
    program, inputs = stack_program(1)
    check(program, inputs, tolerance=1e-4)


def test_a_transformer_block_has_few_nodes() -> None:
    program, inputs = stack_program(1)
    parts = partition_of(program, inputs)
    assert len(operators(parts.forward)) <= 70 and len(operators(parts.backward)) <= 100
    assert not {"clone", "alias", "detach", "t", "transpose"} & {
        *operators(parts.forward),
        *operators(parts.backward),
    }


def test_the_work_of_partitioning_grows_with_the_number_of_layers() -> None:
    def work(layers: int) -> int:
        joint = joint_of(*stack_program(layers))
        return python_calls(lambda: min_cut_partition(joint))

    assert work(12) < 3 * work(6)


@pytest.mark.parametrize(("device", "donated"), [("cpu", (2,)), ("meta", ())])
def test_only_the_cpu_writes_to_what_was_saved(device: str, donated: tuple[int, ...]) -> None:
    """Memory of another device may belong to recorded launches; "meta" stands for it here."""
    x, w = (
        FakeTensor(torch.empty(4, 4, device="meta"), torch.device(device)).requires_grad_()
        for _ in range(2)
    )
    parts = partition_of(lambda x, w: ((x @ w).exp().sin() @ w,), [x, w])
    marked = [n.meta.get("donated", False) for n in parts.backward.graph.placeholders]
    assert parts.donated == donated
    assert marked == [i in donated for i in range(len(marked))]


def test_what_runs_beside_the_layers_is_saved_rather_than_what_is_added_to_it() -> None:
    def layers(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + torch.nn.functional.layer_norm(x, (8,), scale) @ w
        return x

    x, w, scale = (torch.randn(size, requires_grad=True) for size in ((16, 8), (8, 8), (8,)))
    saved = [
        node for node in partition_of(layers, (x, w, scale)).saved_nodes if node.op != "placeholder"
    ]
    large = [node for node in saved if node.meta["val"].shape == x.shape]
    assert [node.target for node in large] == [torch.ops.aten.add.Tensor] * 2


@pytest.mark.parametrize(("device", "saved"), [("cpu", ["mm"]), ("meta", ["mm", "permute"])])
def test_a_gpu_saves_rather_than_writing_again(device: str, saved: list[str]) -> None:
    """The second product's gradient reads `sin`, turned; "meta" stands for all but the CPU."""
    inputs = [
        FakeTensor(torch.empty(4, 4, device="meta"), torch.device(device)).requires_grad_()
        for _ in range(3)
    ]
    parts = partition_of(lambda x, w, v: ((x @ w).sin() @ v,), inputs)
    assert [node.name for node in parts.saved_nodes if node.op == "call_function"] == saved
