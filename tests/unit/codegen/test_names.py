"""Whatever a program's author calls things, no name of a generated program is taken."""

import gc
import linecache
from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.codegen.common import code_in

WORDS = (
    "buf0", "buf1", "arg0", "arg1", "args", "torch_mm", "empty_cpu", "as_strided", "call", "arena",
    "base", "stream", "list", "len", "s0", "u0", "constant0", "fused_relu_add_0", "self", "tmp0",
)  # fmt: skip


def written(text: str, name: str) -> Any:
    """The function `f` of a text in which NAME is a name."""
    text, file = text.replace("NAME", name), f"<program with {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, file, "exec"), scope)
    return scope["f"]


PRODUCT = "def f(NAME, y):\n    return torch.mm(NAME, y).relu() + NAME\n"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WORDS)
def test_an_argument_called_as_the_wrapper_calls_something(name: str, dynamic: bool) -> None:
    f, x, y = written(PRODUCT, name), torch.randn(6, 6), torch.randn(6, 6)
    with stages.collect() as log:
        found = minitorch2.compile(f, fullgraph=True, dynamic=dynamic)(x, y)
    torch.testing.assert_close(found, f(x, y))
    assert log.counts["graphs"] == 1


def test_a_renamed_program_is_one_graph_of_the_cache(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program whose argument was called buf1 was cached, and wrong for all that are like it."""
    # A graph is not cached if other tests of this process have added passes or lowerings.
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())
    x, y = torch.randn(6, 6), torch.randn(6, 6)
    with config.patch(cache_dir=str(tmp_path), verify=False):
        for number, name in enumerate(WORDS):
            f = written(PRODUCT, name)
            gc.collect()
            lookup._PROGRAMS.clear()
            with stages.collect(texts=False) as log:
                torch.testing.assert_close(minitorch2.compile(f)(x, y), f(x, y))
            assert log.counts["graphs_loaded" if number else "graphs_compiled"] == 1


def test_operators_called_alike_are_two() -> None:
    with torch.library._scoped_library("names_a", "DEF") as one:
        one.define("b_c(Tensor x) -> Tensor")
        one.impl("b_c", lambda x: x + 1, "CompositeExplicitAutograd")
        one.impl("b_c", lambda x: torch.empty_like(x), "Meta")
        with torch.library._scoped_library("names_a_b", "DEF") as other:
            other.define("c(Tensor x, *, float lambda=1.0) -> Tensor")
            other.impl("c", lambda x, **kw: x + kw.get("lambda", 1.0), "CompositeExplicitAutograd")
            other.impl("c", lambda x, **kw: torch.empty_like(x), "Meta")

            def f(x: torch.Tensor) -> torch.Tensor:
                ops = torch.ops
                first = ops.names_a.b_c(x * 2)
                return ops.names_a_b.c(first, **{"lambda": 5.0}) * 2

            x = torch.randn(5)
            found = minitorch2.compile(f, fullgraph=True)(x)
            torch.testing.assert_close(found, f(x))


@pytest.mark.parametrize("name", ["args", "units", "i0", "tmp0", "size0", "x", "buf0", "s0_2"])
def test_a_dimension_called_as_something_that_is_generated(name: str) -> None:
    batch = minitorch2.Dim(name, min=3)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * x.shape[0]).sum(1), torch.ones(x.shape[0] * 2, 3) @ x[:3]

    compiled = minitorch2.compile(f, fullgraph=True)
    for size in (6, 9):
        x = torch.randn(size, 7)
        minitorch2.mark_dynamic(x, {0: batch})
        with stages.collect(texts=False) as log:
            for a, b in zip(compiled(x), f(x), strict=True):
                torch.testing.assert_close(a, b)
        assert log.counts["graphs"] == (size == 6)
    assert name in {size.symbol for size in minitorch2.shapes(compiled).entries[0].sizes}


def compiled_from(file: str, comment: str) -> list[str]:
    """The wrappers' code of a program in a file; kernels quote its line with the comment."""
    text = f"def f(x, y):\n    return (x.sin() * y).softmax(-1)  # {comment}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, "<program>", "exec"), scope)
    f = scope["f"]
    f.__code__ = f.__code__.replace(co_filename=file)
    x, y = torch.randn(6, 6, requires_grad=True), torch.randn(6, 6)
    with stages.collect() as log:
        found = minitorch2.compile(f, fullgraph=True, backend="numba")(x, y)
    torch.testing.assert_close(found, f(x, y))
    found.sum().backward()
    return ["\n".join(code_in(text.splitlines())) for text in log.texts("wrapper.py")]


@pytest.mark.parametrize(
    "comment", ["tmp0 in_ptr0[0] exp(tanh(cos(x)))", "load_triton_kernel(x) join_kernels(", "'''\\"]
)
def test_no_word_of_the_line_that_a_kernel_quotes_matters(comment: str) -> None:
    """Threads and imports depended on words of the user's line."""
    assert compiled_from("<quoted>", comment) == compiled_from("<quoted>", "")


def test_a_file_whose_name_no_file_can_hold() -> None:
    """A path with bytes that are no UTF-8 was quoted in a kernel, which could not be written."""
    assert compiled_from("folder\udcff/program.py", "") == compiled_from("<quoted>", "")
