"""Random programs cannot tell deferred execution from eager mode.

`python -m tests.property.lazy_programs --count 2000` is the deep run.
"""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch2 import config, lazy
from minitorch2.testing.programs import programs
from tests.property.lazy_programs import HEAD, check, check_text
from tests.property.test_capture_programs import patient
from tests.property.test_dynamic_shapes import assert_close, names, outcome, program_of

visits = st.lists(
    st.sampled_from([(1, 4), (3, 4), (4, 3), (6, 2), (12, 1)]), min_size=4, max_size=9
)
"""Sizes of one step after the other; some come again, and some programs take another branch."""


def lazily(function):
    """The function, with its operators deferred. Kernels are not what is tested here."""

    def deferred(*args):
        with config.patch(backend="aot_eager"), lazy.lazily(eager_first=False):
            return function(*args)

    return deferred


@patient(60)
@given(programs())
def test_lazy_programs_match_cpython(program):
    program.check(lazily, tolerance=1e-5)


@patient(30)
@given(programs())
def test_gradients_of_lazy_programs_match_eager(program):
    program.check(lazily, gradients=True, tolerance=1e-5)


@patient(8)
@given(names, visits)
def test_steps_of_changing_sizes_match_eager(steps, sizes):
    lazy.reset()
    program = program_of(steps)
    for rows, columns in sizes:
        x = torch.linspace(-1, 1, rows * columns, dtype=torch.float64).view(rows, columns)
        assert_close(outcome(lazily(program), x), outcome(program, x))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**20))
def test_programs_of_views_and_writes_match_eager(seed):
    check(seed)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**20))
def test_gradients_of_programs_of_views_and_writes_match_eager(seed):
    check(seed, gradients=True)


def body(text):
    """The text of a program of `lazy_programs`, with these lines."""
    lines = text.strip("\n").splitlines()
    return HEAD + "\n".join(f"    {line}" for line in lines) + "\n    return [m, v, w, s, k]\n"


def test_a_quickened_function_does_not_tell_another_line():
    """CPython joins the end of a line and the start of the next in functions that it calls often.

    One program was called in both ways, but more often in a region, and told the line before.
    """
    check_text(body("if k:\n    del m\nw1 = w.view(-1, 1).squeeze(1)\nm2 = m.detach()"))


def test_text_with_a_long_name_of_history_is_broken_elsewhere():
    """The name of a view's history, which was left out of the text, decided where lines end."""
    program = "m2 = m.t().t()\nwith torch.no_grad():\n    m2.add_(1)\nprint(m2)"
    check_text(body(program), gradients=True)


def test_views_of_a_base_with_memory_of_another_form_are_a_known_limit():
    """PyTorch called the view's operator again, which refused what ``data`` was assigned."""
    program = "w.uniform_()\nm.data = m.clone().t().contiguous().t()\nm.addcmul_(m, m)\nw.max()"
    check_text(body(program + "\nv.numpy()"), gradients=True)


def test_a_window_of_a_diagonal_and_a_write_in_place_have_eager_gradients():
    """The window was taken of the diagonal again, so elements beside it had no gradient."""
    program = "w1 = m.diagonal()\nm2 = torch.as_strided(w1, m.shape, m.stride())\nw1[0] = s"
    check_text(body(program + "\nw = m2 * 2"), gradients=True)


def test_the_stride_of_a_dimension_of_one_element_is_free_in_a_gradient():
    """Autograd added two gradients of a row in place, and those of lazy tensors out of place."""
    check_text(body("w = m.view(-1)\nv = m * 2 + torch.einsum('ij->j', m)"), gradients=True)


def test_a_dimension_of_one_element_keeps_its_stride_through_flip():
    """The meta kernel of `flip` gave the stride 1 to a column of a matrix with one row."""
    check_text(body("w2 = m[:, -1]\nw2 = w2.flip(0)\nprint(w2.stride(), w2.is_contiguous())"))


def test_a_write_reads_a_row_of_what_it_writes_after_other_tensors_of_these_sizes():
    """The fake of the matrix came from a step without the row, so the two shared no memory."""
    check_text(body("m.add_(v.expand(m.shape))\nprint(m)"))


def test_a_window_on_a_view_whose_base_has_other_memory_since():
    """The window was taken of the base, and showed the memory that `set_` had given it."""
    check_text(body("m.set_(F.softmax(m, -1))\nw4 = w.as_strided((k,), (2,), 1)\nprint(w4)"))
