"""The compiler of the last chapter, `examples/compiler.py`: ten programs against eager PyTorch."""

import ast
import importlib.util
import io
import sys
import tokenize
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

PATH = Path(__file__).parents[3] / "examples" / "compiler.py"
SPEC = importlib.util.spec_from_file_location("compiler_in_300_lines", PATH)
compiler = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compiler)


NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def scaled(x, factor=2.0):
    return x * factor


def wave(x, y):
    return torch.sin(x) * torch.cos(y) + x.exp() / (1 + y.abs())


def normalized(x, weight):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5) * weight


def softmax(x, y):
    return torch.softmax(x + y, dim=-1)


def classified(x, y):
    return -(F.log_softmax(x, -1) * y).sum(-1).mean()


def attention(q, k):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ k


def layers(x, w):
    for _ in range(3):
        x = torch.relu(F.linear(x, w)) + x
    return x, x.sum()


def columns(x, y):
    total = (x * y).sum(0)
    return x / (1 + total * total), total


def moved(x, y):
    return (x.t().reshape(-1) * y.reshape(-1)).view(2, -1).sum(1), x.unsqueeze(0).expand(3, -1, -1)


def branches(x, y):
    if x.shape[0] > 4:
        return scaled(F.gelu(x)) + torch.where(y > 0, y, 0.1 * y)
    return scaled(x, 3.0)


PROGRAMS = {
    wave: ((8, 6), (8, 6)),
    normalized: ((8, 16), (16,)),
    softmax: ((8, 16), (1, 16)),
    classified: ((8, 5), (8, 5)),
    attention: ((2, 6, 4), (2, 6, 4)),
    layers: ((4, 5), (5, 5)),
    columns: ((7, 5), (7, 5)),
    moved: ((4, 6), (4, 6)),
    branches: ((6, 3), (6, 3)),
    scaled: ((5,),),
}


def inputs(shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def leaves(results):
    return results if isinstance(results, tuple) else (results,)


def gradients(results, tensors):
    torch.manual_seed(1)
    loss = sum((each * torch.randn_like(each)).sum() for each in leaves(results))
    return torch.autograd.grad(loss, tensors, allow_unused=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results_and_gradients_are_eagers(program):
    fast, tensors = compiler.compile(program), inputs(PROGRAMS[program])
    for _ in range(2):
        expected, found = program(*tensors), fast(*tensors)
        for left, right in zip(leaves(found), leaves(expected), strict=True):
            torch.testing.assert_close(left, right)
        for left, right in zip(
            gradients(found, tensors), gradients(expected, tensors), strict=True
        ):
            torch.testing.assert_close(left, right)
    assert sum(map(len, fast.entries.values())) == 1  # the second call finds the first one's entry


def kernels(program, fuse):
    """The numbers of kernels, forward and backward, without compiling them."""
    entry = compiler.Entry(program, inputs(PROGRAMS[program]), fuse)
    return len(entry.forward.texts), len(entry.backward.texts)


@pytest.mark.parametrize(
    ("program", "apart", "fused"),
    [(softmax, (3, 3), (1, 2)), (normalized, (3, 6), (1, 3)), (wave, (1, 2), (1, 1))],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_loops_that_read_their_own_iteration_share_a_kernel(program, apart, fused):
    assert kernels(program, fuse=False) == apart
    assert kernels(program, fuse=True) == fused


def test_a_reader_of_other_iterations_gets_a_kernel_of_its_own():
    """The transposed mirror of a legal fusion is illegal: it reads what is not written yet."""

    def legal(x):
        total = x.sum(1, keepdim=True)
        return x * total, total  # broadcasts along columns: row i reads its own total

    def mirrored(x):
        total = x.sum(1)
        return x * total, total  # broadcasts along rows: row i reads all totals

    for program, count in ((legal, 1), (mirrored, 2)):
        fast, x = compiler.compile(program), torch.randn(4, 4)
        for left, right in zip(fast(x), program(x), strict=True):
            torch.testing.assert_close(left, right)
        assert len(fast.texts) == count, program.__name__


def test_other_sizes_numbers_and_globals_are_compiled_anew():
    fast, calls = compiler.compile(scaled), []
    for args in ((torch.ones(3), 2.0), (torch.ones(4), 2.0), (torch.ones(4), 3.0)) * 2:
        torch.testing.assert_close(fast(*args), scaled(*args))
        calls.append(len(fast.entries))
    assert calls == [1, 2, 3, 3, 3, 3]


FACTOR = 2.0


def test_a_changed_global_is_seen(monkeypatch):
    fast = compiler.compile(lambda x: x * FACTOR)
    assert fast(torch.ones(2)).tolist() == [2, 2]
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert fast(torch.ones(2)).tolist() == [3, 3]


def test_what_is_not_known_is_refused_with_its_line():
    def branch(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(compiler.Unsupported, match=r"branch, line \d+: a branch on data"):
        compiler.compile(branch)(torch.ones(2))
    with pytest.raises(compiler.Unsupported, match=r"no loop for aten\.cumsum"):
        compiler.compile(lambda x: x.cumsum(0))(torch.ones(2))


def test_it_has_300_lines_and_needs_torch_and_numba_only():
    """Lines of code are those that begin a statement, an `else` or a decorator; no docstrings."""
    text = PATH.read_text()
    tree, code, begins = ast.parse(text), set(), True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            begins = True
        elif begins and token.type not in NO_CODE:
            code.add(token.start[0])
            begins = False
    docstrings = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    assert 200 < len(code - docstrings) <= 300
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {each.name for node in names if isinstance(node, ast.Import) for each in node.names}
    imported |= {node.module for node in names if isinstance(node, ast.ImportFrom)}
    foreign = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert foreign == {"torch", "numba"}
