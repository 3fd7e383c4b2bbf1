"""Random expressions on NumPy arrays: captured, they give what NumPy gives.

Compared are class (array or scalar), dtype, shape, elements, and the arguments afterwards. Where
PyTorch means something else, capture must leave the expression to NumPy, so breaks are allowed;
that most expressions are captured in one graph is checked as well.
"""

from __future__ import annotations

import linecache
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.bytecode.numpy_capture.bodies import dtypes

DTYPES = [dtype.name for dtype in dtypes.DTYPES]
UNARY = (
    "-{0}", "+{0}", "~{0}", "abs({0})", "np.sin({0})", "np.exp({0})", "np.sqrt({0})",
    "np.sign({0})", "np.floor({0})", "np.rint({0})", "np.isnan({0})", "np.square({0})",
    "np.logical_not({0})",
    "np.log1p({0})", "np.tanh({0})", "np.conj({0})", "np.signbit({0})", "{0}.T", "{0}.copy()",
    "{0}[0]", "{0}[1:]", "{0}[..., 1]", "{0}[None]", "{0}[[1, 0]]", "{0}[{0} == 1]",
    "{0}.ravel()", "{0}.reshape(-1)", "{0}.reshape(2, -1)", "{0}.flatten()", "np.flip({0}, 0)",
    "{0}.astype(np.float32)", "{0}.astype(int)", "{0}.astype('complex64')", "{0}.real",
    "np.round({0}, 1)", "np.clip({0}, 0, 2)", "{0}.clip(1)", "np.nan_to_num({0})",
    "np.expand_dims({0}, 0)", "np.atleast_2d({0})", "np.roll({0}, 1)", "np.diff({0})",
    "np.tril({0})", "np.repeat({0}, 2, 0)", "np.tile({0}, 2)", "np.zeros_like({0})",
    "np.full_like({0}, 1)", "np.sort({0})", "np.argsort({0}, kind='stable')", "np.pad({0}, 1)",
    "np.cumsum({0})", "np.cumprod({0}, axis=0)", "np.stack([{0}, {0}])", "np.vstack([{0}, {0}])",
    "np.moveaxis({0}, 0, -1)", "np.trace({0})", "np.fft.fft({0})", "np.real({0})",
    "np.linalg.norm({0})", "np.angle({0})", "np.asarray({0})", "np.array({0})",
    "np.split({0}, 2)[0]", "np.gradient({0})[0]", "np.diagonal({0}) + 1", "{0} ** 2", "{0} ** 0.5",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} // {1}", "{0} % {1}", "{0} ** {1}",
    "{0} < {1}", "{0} >= {1}", "{0} == {1}", "{0} != {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}",
    "{0} << {1}", "np.maximum({0}, {1})", "np.fmin({0}, {1})", "np.arctan2({0}, {1})",
    "np.hypot({0}, {1})", "np.copysign({0}, {1})", "np.logaddexp({0}, {1})", "np.fmod({0}, {1})",
    "np.where({0} > {1}, {0}, {1})", "np.logical_and({0}, {1})", "np.heaviside({0}, {1})",
    "np.add({0}, {1}, dtype='f8')", "np.divmod({0}, {1})[0]", "np.float_power({0}, {1})",
)  # fmt: skip
JOINS = ("np.concatenate([{0}, {1}])", "np.dot({0}, {1}.T)", "{0} @ {1}.T", "np.outer({0}, {1})",
         "np.vdot({0}, {1})", "np.inner({0}, {1})", "np.einsum('ij,kj->ik', {0}, {1})",
         "np.cross({0}, {1})", "np.tensordot({0}, {1})", "np.kron({0}, {1})")  # fmt: skip
REDUCTIONS = tuple(
    f"{function}({{0}}{axis})"
    for function in (
        *("np.sum", "np.prod", "np.max", "np.min", "np.mean", "np.std", "np.var", "np.ptp"),
        *("np.any", "np.all", "np.argmax", "np.argmin", "np.count_nonzero", "np.add.reduce"),
        *("np.nansum", "np.average"),
    )
    for axis in ("", ", axis=0", ", axis=-1")
)
STATEMENTS = (
    "a += {0}", "a *= {0}", "a -= 1", "a /= {0}", "a[0] = {0}[0]", "a[...] = {0}", "a[1:] += 1",
    "np.add(a, 1, out=a)", "np.multiply(a, {0}, out=a)", "a[{0} == 1] = 0", "a.fill(3)", "a.sort()",
    "np.copyto(a, {0})", "b[0, 0] = 1", "np.exp(a, out=a)", "np.add(a, b, out=a, where=a == 1)",
)  # fmt: skip
NUMBERS = ("2", "0.5", "-1", "True", "300", "np.float32(1.5)", "np.int64(3)", "1j", "x")

LEAST_CAPTURED = 0.5
"""The part of the expressions that has to be captured in one graph."""

ended: Counter[bool] = Counter()


def _array(dtype: str, seed: int) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(seed).integers(0, 4, (3, 3)).astype(np.float64)
    kind = np.dtype(dtype).kind
    if kind == "f":
        values = values - 1.5 + np.where(values == 2, np.nan if seed % 3 == 0 else 0, 0.25)
    if kind == "i":
        values = values - 1
    return (values * (1 + 0.5j) if kind == "c" else values).astype(dtype)


@st.composite
def _programs(draw: st.DrawFn) -> str:
    expressions = ["a", "b"]
    for _ in range(draw(st.integers(1, 3))):
        whole = st.sampled_from(expressions)
        part = st.one_of(whole, st.sampled_from(NUMBERS))
        form = draw(st.sampled_from((UNARY, BINARY, BINARY, JOINS, REDUCTIONS)))
        template = draw(st.sampled_from(form))
        second = draw(part if form is BINARY else whole)
        expressions.append("(" + template.format(draw(whole), second) + ")")
    lines = [f"    return {expressions[-1]}"]
    if draw(st.integers(0, 3)) == 0:
        lines.insert(0, "    " + draw(st.sampled_from(STATEMENTS)).format("b"))
    return "def program(a, b, x):\n" + "\n".join(lines) + "\n"


def _compiled(source: str) -> Any:
    file = f"<program {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(compile(source, file, "exec"), namespace)
    return namespace["program"]


def _observe(function: Any, arguments: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arguments), None
        except Exception as error:
            return None, type(error)


def same(given: Any, wanted: Any, source: str) -> None:
    """Check that NumPy's own result and ours are of one class, dtype, shape and value."""
    assert type(given) is type(wanted), f"{source}: {type(given)}, not {type(wanted)}"
    if isinstance(wanted, tuple | list):
        for left, right in zip(given, wanted, strict=True):
            same(left, right, source)
    elif isinstance(wanted, np.ndarray | np.generic):
        assert (given.dtype, given.shape) == (wanted.dtype, wanted.shape), (
            f"{source}: {given.dtype}{given.shape}, not {wanted.dtype}{wanted.shape}"
        )
        if wanted.dtype.kind in "fc":
            size = {2: 2e-2, 4: 2e-5, 8: 2e-5 if wanted.dtype.kind == "c" else 1e-11}
            near = size.get(wanted.dtype.itemsize, 1e-11)
            with np.errstate(all="ignore"):
                scale = np.nanmax(np.abs(np.where(np.isfinite(wanted), wanted, 0)), initial=1.0)
            assert np.allclose(given, wanted, near, near * scale, equal_nan=True), (
                f"{source}:\n{given}\nis not\n{wanted}"
            )
        else:
            assert np.array_equal(given, wanted), f"{source}:\n{given}\nis not\n{wanted}"
    else:
        assert given == wanted, source


def check(source: str, kinds: tuple[str, str], seed: int) -> bool:
    """Compare one program with NumPy; whether it was captured in one graph."""
    function = _compiled(source)

    def arguments() -> tuple[Any, ...]:
        return _array(kinds[0], seed), _array(kinds[1], seed + 1), np.float64(0.5)

    inputs, expected_inputs = arguments(), arguments()
    wanted = _observe(function, expected_inputs)
    with config.patch(suppress_errors=False), stages.collect() as log:
        given = _observe(minitorch2.compile(function, backend="eager"), inputs)
    assert given[1] is wanted[1], f"{source}: {given[1]}, not {wanted[1]}"
    same((given[0], inputs), (wanted[0], expected_inputs), f"{source}{kinds} {seed}")
    return not log.counts["graph_breaks"] and not log.counts["frames_as_is"]


@settings(suppress_health_check=list(HealthCheck))
@given(_programs(), st.tuples(*[st.sampled_from(DTYPES)] * 2), st.integers(0, 20))
def test_expressions_mean_what_numpy_means(source, kinds, seed):
    ended[check(source, kinds, seed)] += 1


def test_most_expressions_are_captured():
    if ended.total() < 40:
        pytest.skip("the random expressions have not run")
    assert ended[True] / ended.total() >= LEAST_CAPTURED, ended
