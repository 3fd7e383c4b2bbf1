"""Programs that write and alias: same values, same memory relations, same gradients as eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.autograd import default_partition, min_cut_partition
from minitorch2.autograd.schemas import alias_facts, functional_form
from minitorch2.errors import BackendError, UnsupportedError
from tests.unit.autograd.programs import check, compiled, joint_of, operators, relations

aten = torch.ops.aten


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, requires_grad=True)


def set_rows(x: Any, y: Any) -> Any:
    z = x.clone()
    z[0] = y
    z[:, 1:3] *= 2
    z[..., -1] = 3.0
    z[1:, None, 2] = y[0]
    return (z,)


def write_through_views(x: Any) -> Any:
    z = x * 1
    z.view(-1)[3:9].mul_(3)
    z.t()[0].zero_()
    z.unsqueeze(0).squeeze(0)[1].add_(x[0])
    z.diagonal().fill_(2.0)
    z.narrow(1, 2, 2).div_(2)
    z.select(0, 2).neg_()
    return z, z.sum(1)


def swap(x: Any, y: Any) -> Any:
    keep = x.clone()
    x.copy_(y)
    y.copy_(keep)
    return (x + 0,)


def running_average(x: Any, buffer: Any) -> Any:
    buffer.mul_(0.9).add_(x.detach().mean() * 0.1)
    return (x * buffer,)


def scatter_writes(x: Any, i: Any) -> Any:
    z = x.clone()
    z[i] = 1.0
    z.index_add_(0, i, x[i] * 2)
    z.masked_fill_(x > 1, -1.0)
    z.scatter_(1, i[:, None], 5.0)
    z.clamp_(-2, 2)
    return (z,)


def out_arguments(x: Any) -> Any:
    buffer = torch.empty(4)
    torch.add(x, 1, out=buffer)
    other = torch.zeros(2, 4)
    torch.mul(buffer, 2, out=other[1])
    return buffer, other


def metadata(x: Any) -> Any:
    y = x * 2
    y.t_()
    y.unsqueeze_(0)
    return (y, y.squeeze(0).add_(1))


def detach_and_write(x: Any) -> Any:
    y = x.sin()
    with torch.no_grad():
        z = y.detach()
    return y * 2, z + 1


def write_then_view(x: Any) -> Any:
    y = x.sin()
    v = y.view(-1)
    y.add_(1)
    return (v * 2, v)


def foreach_sgd(p: Any, q: Any, g: Any, h: Any) -> Any:
    torch._foreach_add_([p, q], [g, h], alpha=-0.1)
    torch._foreach_mul_([p, q], 0.9)
    torch._foreach_addcdiv_([p, q], [g, h], [p.exp(), q.exp()], value=0.5)
    torch._foreach_lerp_([p, q], [g, h], 0.25)
    return (p.sum(), *torch._foreach_sqrt([g.abs(), h.abs()]))


def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m.lerp_(g, 0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    p.addcdiv_(m, v.sqrt().add_(1e-8), value=-0.01)
    return (p + 0,)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "chain": (lambda x: (x.sin().add_(1).mul_(2),), [leaf(4, 4)]),
    "set_rows": (set_rows, [leaf(4, 4), leaf(4)]),
    "write_through_views": (write_through_views, [leaf(4, 6)]),
    "swap": (swap, [torch.randn(3), torch.randn(3)]),
    "running_average": (running_average, [leaf(4), torch.ones(4)]),
    "scatter_writes": (scatter_writes, [leaf(4, 6), torch.tensor([0, 2])]),
    "out_arguments": (out_arguments, [torch.randn(4)]),
    "metadata": (metadata, [leaf(2, 3)]),
    "detach_and_write": (detach_and_write, [leaf(3)]),
    "write_then_view": (write_then_view, [leaf(2, 3)]),
    "input_written": (lambda x: (x.add_(1),), [torch.randn(4)]),
    "input_written_not_returned": (lambda x: (x.add_(1), x * 2)[1:], [torch.randn(4)]),
    "input_view_written": (lambda x: (x[1:3].zero_(), x.sum()), [torch.randn(4)]),
    "promotion_in_place": (
        lambda x: (x.add_(torch.ones(3, dtype=torch.float64)),),
        [torch.randn(3)],
    ),
    "in_place_broadcast": (lambda x, y: (x.clone().add_(y),), [leaf(4, 3), leaf(3)]),
    "copy_layout": (lambda x: (torch.empty(3, 2).copy_(x.t()),), [leaf(2, 3)]),
    "fill_with_tensor": (lambda x: (torch.empty(3).fill_(x.sum()),), [leaf(3)]),
    "bool_mask_write": (
        lambda x: (x.clone().index_put_((x > 0,), torch.tensor(0.0)),),
        [torch.randn(4)],
    ),
    "foreach_sgd": (foreach_sgd, [torch.randn(3) for _ in range(4)]),
    "adam": (adam, [torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3)]),
    "zero_size": (lambda x: (x[:0].add_(1), x * 2), [torch.randn(3)]),
}
ALIASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "input_itself": (lambda x: (x, x * 2), [leaf(3, 4)]),
    "input_views": (lambda x: (x.view(12), x.t(), x[1]), [leaf(3, 4)]),
    "input_detached": (lambda x: (x.detach(), x.sin()), [leaf(3, 4)]),
    "input_cloned": (lambda x: (x.clone(), x), [leaf(3, 4)]),
    "same_twice": (lambda x: (lambda y: (y, y))(x.sin()), [leaf(3, 4)]),
    "views_of_a_result": (lambda x: (lambda y: (y, y.t(), y[0]))(x.sin()), [leaf(3, 4)]),
    "views_of_a_hidden_base": (lambda x: (lambda y: (y[0], y[1:]))(x.sin()), [leaf(3, 4)]),
    "equal_results": (lambda x: (x.sin(), x.sin()), [leaf(3)]),
    "expanded": (lambda x: (x.sum().expand(3, 2),), [leaf(3)]),
    "split_results": (lambda x: tuple((x * 2).split(2)), [leaf(5)]),
    "view_of_a_written_input": (lambda x: (x.mul_(2), x[1:]), [torch.randn(4)]),
    "numbers_and_none": (lambda x: (x.sin(), 3, None, 2.5, "a"), [leaf(3)]),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *ALIASES])
@pytest.mark.parametrize("partition", [min_cut_partition, default_partition])
def test_as_eager(name: str, partition: Any) -> None:
    program, inputs = {**PROGRAMS, **ALIASES}[name]
    check(program, inputs, partition=partition)


@pytest.mark.parametrize("name", [*PROGRAMS, *ALIASES])
def test_as_eager_without_gradients(name: str) -> None:
    program, inputs = {**PROGRAMS, **ALIASES}[name]
    with torch.no_grad():
        check(program, [x.detach() if isinstance(x, torch.Tensor) else x for x in inputs])


def test_no_writes_are_left() -> None:
    names = operators(joint_of(write_through_views, [leaf(4, 6)]).module)
    assert not [name for name in names if name.endswith("_")]
    assert "slice_scatter" in names and "diagonal_scatter" in names


def test_a_write_to_a_caller_tensor_with_history_is_differentiable() -> None:
    x = torch.randn(3, requires_grad=True)
    ours, theirs = x * 1, x * 1
    program = lambda y: (y.mul_(3), y.sum())  # noqa: E731
    run = compiled(program, [(x * 1)])
    got, expected = run(ours), program(theirs)
    assert got[0] is ours and ours.grad_fn is not None
    torch.testing.assert_close(
        torch.autograd.grad((got[1], ours.sin().sum()), x),
        torch.autograd.grad((expected[1], theirs.sin().sum()), x),
    )


def test_one_tensor_passed_twice() -> None:
    x = torch.randn(4, requires_grad=True)
    run = compiled(lambda a, b: (a * b.sin(),), [x, x])
    (grad,) = torch.autograd.grad(run(x, x)[0].sum(), x)
    torch.testing.assert_close(grad, x.sin() + x * x.cos())
    with pytest.raises(BackendError) as found:
        run(x, torch.randn(4))
    assert found.value.code == "aliasing-changed"


def test_one_written_tensor_passed_twice() -> None:
    b = torch.ones(4)
    run = compiled(lambda a, c: (a.add_(1), c * 2), [b, b])
    assert torch.equal(run(b, b)[1], torch.full((4,), 4.0)) and torch.equal(
        b, torch.full((4,), 2.0)
    )


def test_views_of_results_are_views_to_autograd() -> None:
    x = leaf(4, 4)
    a, _, base = compiled(lambda x: (lambda y: (y[0], y[1], y))(x * 2), [x])(x)
    assert a._base is base
    base.mul_(2)  # the view's gradient follows a later write to its base, as in eager
    (grad,) = torch.autograd.grad(a.sum(), x)
    assert torch.equal(grad[0], torch.full((4,), 4.0)) and not grad[1:].any()


def test_writing_to_a_constant_is_refused() -> None:
    held = torch.ones(3)
    with pytest.raises(UnsupportedError, match="constant"):
        compiled(lambda x: (held.add_(x),), [torch.ones(3)])


def test_writing_through_an_expanded_tensor_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="expanded"):
        joint_of(
            lambda x: (x.clone().expand(3, 2).add_(1),), [torch.randn(1, 2)], differentiate=False
        )


def test_schema_facts() -> None:
    assert alias_facts(aten.add_.Tensor).written == ("self",)
    assert alias_facts(aten.add.out).written == ("out",)
    assert alias_facts(aten.view.default).is_view and not alias_facts(aten.add.Tensor).is_view
    assert functional_form(aten.add_.Tensor) is aten.add.Tensor
    assert functional_form(aten.add.out) is aten.add.Tensor
    assert functional_form(aten.bernoulli_.float) is torch.ops.minitorch2.bernoulli.default
    assert functional_form(aten.index_put_.default) is aten.index_put.default
    with pytest.raises(UnsupportedError, match="no functional form"):
        functional_form(aten.embedding_renorm_.default) if not hasattr(
            aten, "embedding_renorm"
        ) else (functional_form(aten.record_stream.default))


STORAGE = {
    "as_strided_of_a_view": lambda x: (x[1:].as_strided((2, 2), (3, 1)).mul_(5), x),
    "as_strided_at_an_offset": lambda x: (x.as_strided((2, 2), (6, 1), 1).add_(1), x),
    "as_strided_of_a_transposed": lambda x: (x.t()[1].as_strided((2,), (7,)).zero_(), x),
    "unfold": lambda x: (x.unfold(1, 2, 3).mul_(2), x),
    "complex": lambda x: (torch.view_as_complex(x.view(4, 3, 2)).t().mul_(2), x),
    "imaginary_part": lambda x: (torch.view_as_complex(x.view(4, 3, 2)).imag.add_(1), x),
    "conjugate": lambda x: (torch.view_as_complex(x.view(4, 3, 2)).conj().mul_(2j), x)[1:],
}


@pytest.mark.parametrize("name", STORAGE)
def test_writes_through_windows_on_memory(name: str) -> None:
    check(lambda x: STORAGE[name](x * 1), [leaf(4, 6)])


def test_windows_on_views_with_other_elements() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 1
        wide = torch.view_as_complex(y).conj()
        window = wide.as_strided((2,), (1,), 1)
        window.mul_(2)
        integers = y.view(torch.int32).t().as_strided((3,), (1,))
        return y, window, wide, integers, y.view(torch.float64).as_strided((2, 2), (1, 1))

    check(program, [torch.randn(3, 2)])


def test_windows_on_inputs_whose_place_in_memory_varies() -> None:
    run = compiled(lambda x: (x[1:].as_strided((2, 2), (2, 1)).mul_(5),), [torch.arange(9.0)])
    ours, theirs = torch.arange(12.0), torch.arange(12.0)
    run(ours[3:])
    theirs[4:].as_strided((2, 2), (2, 1)).mul_(5)
    assert torch.equal(ours, theirs)
    with pytest.raises(UnsupportedError, match="storage offset of an input"):
        compiled(lambda x: (x.as_strided((2, 2), (2, 1), 1),), [torch.arange(9.0)])


def test_parts_of_a_conjugated_view_are_views_of_memory() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.complex(x, x * 2)
        turned = z.conj().t()
        turned.imag.add_(5)
        turned.real[0] = 7
        return torch.view_as_real(z), turned.real, turned.imag, turned.conj().imag

    x = torch.randn(3, 2)
    given, expected = minitorch2.compile(program, fullgraph=True)(x), program(x)
    assert all(map(torch.equal, given, expected))
    assert [t.is_neg() for t in given] == [t.is_neg() for t in expected]
    assert relations([], given) == relations([], expected)


def test_a_write_to_a_part_of_an_input_writes_that_part() -> None:
    def program(cache: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cache[1, 2:4] = row
        cache[1, 2:4].mul_(2)
        return cache.sum(), cache[1]

    cache, row = torch.randn(3, 6), torch.randn(2)
    with stages.collect() as log:
        fast = minitorch2.compile(program, fullgraph=True)
        given, expected = [tensor.clone() for _ in range(2) for tensor in [cache]]
        results, wanted = fast(given, row), program(expected, row)
    assert torch.equal(given, expected)
    torch.testing.assert_close(results, wanted)
    assert results[1].data_ptr() == given[1].data_ptr()
    (text,) = log.texts("wrapper.py")
    assert "empty_cpu((3, 6)" not in text  # no copy of the cache is made


def test_hermitian_transforms() -> None:
    program = lambda x: (torch.fft.hfft(torch.complex(x, x.sin()).conj()),)  # noqa: E731
    x = leaf(3, 5)
    (given,), (expected,) = minitorch2.compile(program, fullgraph=True)(x), program(x)
    torch.testing.assert_close(given, expected)
    for each in (given, expected):
        (gradient,) = torch.autograd.grad(each.square().sum(), x)
        torch.testing.assert_close(
            gradient, torch.autograd.grad(program(x)[0].square().sum(), x)[0]
        )


def test_out_takes_the_size_of_its_result() -> None:
    def program(x: Any) -> Any:
        out = torch.zeros(0)
        return torch.mul(x, 2, out=out), out + 1

    check(program, [torch.ones(3)])


def test_an_input_that_takes_another_size_by_out_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="another size"):
        compiled(lambda x, out: (torch.mul(x, 2, out=out),), [torch.ones(3), torch.zeros(0)])


def test_complex_numbers_in_gradients() -> None:
    program = lambda x: (torch.view_as_real(torch.view_as_complex(x) * (1 + 2j)),)  # noqa: E731
    check(program, [leaf(3, 2)])


def test_nothing_is_gathered_or_reduced() -> None:
    empty = torch.zeros(2, 0, dtype=torch.long)
    check(lambda x: (x.gather(0, empty), x.detach().scatter_add(0, empty, x.detach())), [leaf(5)])
    check(lambda x: (x.softmax(-1), x.log_softmax(1)), [leaf(5, 0)])


def test_written_memory_of_symbolic_sizes_keeps_its_strides() -> None:
    """Steps that are symbolic were not compared, so the memory took the strides of the value."""

    def program(x: Any) -> Any:
        turned = x.t().contiguous().t() * 2
        turned.copy_(x)
        return turned

    function = minitorch2.compile(program, dynamic=True, fullgraph=True)
    for rows in (3, 2, 6):
        x = torch.randn(rows, 4)
        assert function(x).stride() == program(x).stride() == (1, rows)
        torch.testing.assert_close(function(x), x)


@pytest.mark.parametrize("split", [torch.unsafe_split, torch.unsafe_chunk])
@pytest.mark.parametrize("backend", ["aot_eager", "numba"])
def test_a_write_to_an_unsafe_part_reaches_the_whole(split: Any, backend: str) -> None:
    """The schemas of these operators do not say that they give views."""

    def program(x: Any) -> Any:
        whole = x * 1
        split(whole, 2)[0].add_(1)
        last = split(whole, 2)[1]
        split(x, 2)[1].mul_(2)
        return whole, last.mul_(3), last.storage_offset()

    eager, given = torch.arange(4.0), torch.arange(4.0)
    wanted = program(eager)
    found = minitorch2.compile(program, backend=backend, fullgraph=True)(given)
    assert found[2] == wanted[2] == 2
    torch.testing.assert_close((given, *found[:2]), (eager, *wanted[:2]), rtol=0, atol=0)
