"""Small programs that see what a caller can see; deferred execution must not change it.

A program is a function without arguments that gives what it saw. Random numbers begin at one seed.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    """Add a program under its name."""
    PROGRAMS[function.__name__] = function
    return function


def matrix(*size: int) -> torch.Tensor:
    """Return numbers from -1 to 1."""
    size = size or (3, 4)
    return torch.linspace(-1, 1, torch.Size(size).numel()).view(size)


def message_of(function: Callable[[], Any]) -> str:
    """Return the class and the text of the error that a function raises."""
    try:
        return f"no error: {function()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def small_model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))


# Writes and views ---------------------------------------------------------------------------------


@program
def rows_are_written() -> Any:
    x = torch.zeros(3, 4)
    for number, row in enumerate(x):
        row.add_(number)
    x[1, 2:] = 9
    x[x > 5] -= 1
    x[:, 0] += x[:, 1]
    return x


@program
def views_of_views() -> Any:
    x = matrix(4, 6) * 1
    v = x.view(2, 2, 6).transpose(0, 1)[0]
    w = v.narrow(1, 1, 2).unsqueeze(0)
    w.mul_(10)
    x.add_(1)
    return x, v, w, w._base is x


@program
def a_view_outlives_its_base() -> Any:
    x = matrix() * 2
    v = x[1]
    del x
    gc.collect()
    v.add_(1)
    return v, v._base


@program
def diagonals_and_unbound_views() -> Any:
    x = matrix(3, 3) * 1
    x.diagonal().fill_(7)
    a, b, c = x.unbind(1)
    a.copy_(b)
    b.zero_()
    first, second = x.split([1, 2])
    second.neg_()
    return x, a, b, c, first


@program
def out_arguments() -> Any:
    out, wide, empty = torch.zeros(3, 4), torch.zeros(4, 3), torch.empty(0)
    x = matrix()
    same = torch.mul(x, 2, out=out) is out
    torch.add(x, 1, out=wide.t())
    torch.cat([x, x], out=empty)
    values, indices = torch.empty(3), torch.empty(3, dtype=torch.long)
    torch.max(x, 1, out=(values, indices))
    return same, out, wide, empty, values, indices


@program
def resized_and_set_memory() -> Any:
    x = torch.ones(2, 3)
    x.resize_(3, 2).mul_(2)
    y = torch.zeros(2)
    y.set_(x)
    y.add_(1)
    z = torch.ones(4)
    z.resize_(2)
    return x, y, z, z.untyped_storage().nbytes()


@program
def metadata_is_changed_in_place() -> Any:
    x = matrix() * 1
    x.t_()
    x.unsqueeze_(1)
    x.squeeze_()
    x.transpose_(0, 1)
    x.swapaxes_(0, 1).add_(1)
    return x, x.shape, x.stride()


@program
def data_is_assigned() -> Any:
    x = nn.Parameter(matrix())
    y = x.data
    y.mul_(2)
    x.data = x.data + 1
    x.data[0] = 5
    return x, y, x.requires_grad, y.requires_grad


@program
def overlapping_memory() -> Any:
    x = torch.arange(6.0)
    x[1:] = x[:-1].clone()
    x[:3].copy_(x[3:])
    return x, message_of(lambda: x[1:].add_(x[:-1])), message_of(lambda: x.expand(2, 6).add_(1))


@program
def swapped_names() -> Any:
    a, b = torch.ones(2) * 1, torch.zeros(2) * 1
    a, b = b, a
    a += 1
    b *= 5
    a, b = a + b, a - b
    return a, b


@program
def versions_are_counted() -> Any:
    x = matrix().requires_grad_()
    y = x.exp()
    y.add_(1)
    return y._version, message_of(lambda: y.sum().backward())


@program
def a_leaf_is_written_without_gradients() -> Any:
    x = matrix().requires_grad_()
    (x * x).sum().backward()
    with torch.no_grad():
        x -= 0.1 * x.grad
    x.grad.zero_()
    (x**3).sum().backward()
    return x, x.grad, x._version


@program
def masked_and_scattered_writes() -> Any:
    x = matrix() * 1
    x.masked_fill_(x > 0.5, 0)
    x.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 4))
    x.index_copy_(1, torch.tensor([3]), torch.ones(3, 1))
    x.scatter_(1, torch.tensor([[1], [2], [0]]), 4.0)
    x.index_put_((torch.tensor([0, 0]),), torch.tensor(1.0), accumulate=True)
    x.put_(torch.tensor([2]), torch.tensor([8.0]))
    return x.clamp_(-3, 3).round_()


# Surroundings -------------------------------------------------------------------------------------


@program
def default_types() -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return torch.ones(2) * 2, torch.tensor(1.5) + 1, torch.arange(3) / 2, torch.rand(1)
    finally:
        torch.set_default_dtype(before)


@program
def default_types_between_equal_steps() -> Any:
    x, seen = torch.arange(3), []
    for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            seen.append((x / 2, x * 1.5, torch.full((2,), 1.0)))
        finally:
            torch.set_default_dtype(torch.float32)
    return [[t.dtype for t in part] for part in seen], seen


@program
def generators() -> Any:
    generator = torch.Generator().manual_seed(3)
    a = torch.rand(2, generator=generator)
    state = generator.get_state()
    b = torch.randn(2, generator=generator)
    generator.set_state(state)
    c = torch.empty(2).normal_(generator=generator)
    return a, b, c, torch.randperm(4, generator=generator), generator.initial_seed()


@program
def states_of_random_numbers() -> Any:
    state = torch.get_rng_state()
    a = torch.rand(2) * 2
    torch.set_rng_state(state)
    b = torch.rand(2) * 2
    with torch.random.fork_rng():
        torch.manual_seed(7)
        c = F.dropout(torch.ones(4))
    return a, b, c, torch.rand(1)


@program
def weak_references() -> Any:
    x = matrix() * 2
    alive, y = weakref.ref(x), x + 1
    here = alive() is x
    del x
    gc.collect()
    return here, alive() is None, y


@program
def attributes_and_keys() -> Any:
    x = matrix() * 2
    x.note = "kept"
    table = {x: 1}
    y = x.add_(1)
    return y.note, table[y], x in {y}, {y: 3}[x]


@program
def copies_of_structures() -> Any:
    x = nn.Parameter(matrix())
    first = {"a": x, "b": [x, x.data[0]], "c": x.detach() * 2}
    second = copy.deepcopy(first)
    second["a"].data.add_(1)
    return second, second["a"] is second["b"][0], isinstance(second["a"], nn.Parameter), x


@program
def saved_models() -> Any:
    model = small_model()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = pickle.loads(pickle.dumps({k: v * 1 for k, v in model.state_dict().items()}))
    return torch.load(file), again


@program
def threads_compute() -> Any:
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        x = torch.full((3,), float(number))
        for _ in range(5):
            x = x * 1.5 - x
        results[number] = x.tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return sorted(results.items())


def lines_of_errors(function: Callable[[], Any]) -> Any:
    try:
        function()
    except Exception as error:
        traceback, lines = error.__traceback__, []
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == __file__:
                lines.append(traceback.tb_lineno)
            traceback = traceback.tb_next
        return type(error).__name__, str(error).splitlines()[0], lines
    return None


@program
def errors_have_their_lines() -> Any:
    def wrong() -> None:
        x = matrix() * 2
        y = x + 1
        y @ y
        y + torch.ones(9)

    return lines_of_errors(wrong), lines_of_errors(lambda: F.linear(matrix(), matrix().t()))


@program
def errors_are_caught_and_work_goes_on() -> Any:
    x, caught = matrix() * 2, []
    for other in (torch.ones(9), torch.ones(4), torch.ones(5), torch.ones(3, 1)):
        try:
            x = x + other
        except RuntimeError as error:
            caught.append(str(error))
        finally:
            x = x * 2
    return x, caught


@program
def generators_of_python() -> Any:
    def running(x: torch.Tensor) -> Iterator[torch.Tensor]:
        total = torch.zeros(4)
        for row in x:
            total = total + row
            yield total

    return [*running(matrix() * 2)], next(running(matrix())).sum().item()


@program
def data_decide() -> Any:
    x, steps = torch.tensor(7) * 1, 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    return x, steps


@program
def beam_search() -> Any:
    table = torch.randn(5, 5).log_softmax(1)
    beams, scores = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1)
    for _ in range(3):
        total = (scores[:, None] + table[beams[:, -1]]).flatten()
        scores, best = total.topk(min(3, len(total)))
        beams = torch.cat([beams[best // 5], (best % 5)[:, None]], 1)
        if (beams[:, -1] == 4).all():
            break
    return beams, scores


@program
def printed_text() -> Any:
    file = io.StringIO()
    x = matrix() * 2
    print(x, x.shape, x.sum(), [x[0, 0]], file=file)
    x += 1
    print(x, f"{x.mean():.3f}", file=file)
    return file.getvalue()


@program
def subclasses() -> Any:
    class Named(torch.Tensor):
        pass

    x = (matrix() * 2).as_subclass(Named)
    y = x + 1
    return type(y).__name__, y.as_subclass(torch.Tensor), type(torch.Tensor.__add__(x, 1)).__name__


@program
def function_modes() -> Any:
    calls: list[str] = []

    class Log(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            calls.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Log():
        y = torch.add(matrix(), 1).relu()
    return y, [c for c in calls if c in ("add", "relu")]


@program
def devices() -> Any:
    with torch.device("cpu"):
        x = torch.ones(2) * 2
    y = x.to("cpu", torch.float64, copy=True).cpu()
    return x.device, y, x.is_cpu, x.get_device(), message_of(lambda: (x * 2).cuda(99))[:12]


@program
def meta_tensors() -> Any:
    x = torch.ones(2, 3, device="meta") @ torch.ones(3, 4, device="meta")
    return x.shape, x.device.type, message_of(lambda: x + torch.ones(2, 4) * 1)


@program
def orders_of_memory() -> Any:
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last) * 2
    y = F.conv2d(x, torch.randn(2, 3, 3, 3))
    return x.stride(), y, y.stride(), x.is_contiguous(memory_format=torch.channels_last)


@program
def sets_of_parameters() -> Any:
    model = small_model()
    tied = nn.Sequential(model[0], model[0])
    model[3].weight = nn.Parameter(model[3].weight * 2)
    model.register_buffer("count", torch.zeros(()) + 1)
    model.count += 1
    return len({*tied.parameters()}), model.count, [n for n, _ in model.named_parameters()]


@program
def lazy_modules() -> Any:
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    return model(matrix()), model[0].weight.shape


@program
def recurrent_networks() -> Any:
    lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)
    out, (h, c) = lstm(torch.randn(2, 5, 4))
    (out.sum() + h.sum()).backward()
    return out, h, c, [p.grad for p in lstm.parameters()]


@program
def transformers() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    y = layer(torch.randn(2, 5, 8), src_mask=mask, is_causal=True)
    y.square().mean().backward()
    return y, [p.grad for p in layer.parameters()]


@program
def warnings_are_given() -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        F.mse_loss(torch.ones(2, 1) * 1, torch.ones(2) * 1)
        (matrix().requires_grad_() * 2).grad
    return [str(w.message)[:40] for w in caught]
