"""Calls that raise: the compiled program raises what eager does, at the same line, no later.

    python -m tests.operators.error_sweep                          all calls, captured alone
    python -m tests.operators.error_sweep --backend numba --only gather,cholesky
    python -m tests.operators.error_sweep --kinds extremes --backend aot_eager_decomp_partition

The calls are those that PyTorch's operator and module databases hold for its own error messages,
those of `value_errors.py`, and samples of the database with extreme values put into them. Each is
made by several programs, which differ in what becomes of the result.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_map_only

import minitorch2
from minitorch2 import config
from tests.operators.compare import function_of, samples_of, time_limit
from tests.operators.sweep import OPERATORS, name_of
from tests.operators.value_errors import INF, NAN, VALUE_ERRORS

BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "numba", "triton")
STATUSES = ("same", "text", "line", "effects", "class", "internal")
WRONG = ("line", "effects", "class", "internal")

# LAPACK ends the process for these, in eager, too.
DEADLY = ("linalg.eig", "linalg.lstsq", "lstsq", "linalg.lobpcg", "svd_lowrank", "pca_lowrank")


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        name: says where it comes from.
        function: what is called.
        args: its arguments; copied before each call.
        kwargs: the same by name.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


# Programs ----------------------------------------------------------------------------------------
# `events` shows what was done before and after the call, `state` what was written.


def read(function: Any, events: list[str], state: torch.Tensor) -> Callable[..., Any]:
    """The result is returned."""

    def program(*args: Any, **kwargs: Any) -> Any:
        events.append("before")
        result = function(*args, **kwargs)
        events.append("after")
        return result

    return program


def unread(function: Any, events: list[str], state: torch.Tensor) -> Callable[..., Any]:
    """Nobody reads the result."""

    def program(*args: Any, **kwargs: Any) -> Any:
        events.append("before")
        function(*args, **kwargs)
        events.append("after")
        return state + 1

    return program


def caught(function: Any, events: list[str], state: torch.Tensor) -> Callable[..., Any]:
    """The program goes on behind the error, and draws a random number."""

    def program(*args: Any, **kwargs: Any) -> Any:
        noise = torch.rand(2)
        try:
            function(*args, **kwargs)
        except Exception as error:
            events.append(type(error).__name__)
            return noise + torch.rand(2)
        return noise

    return program


def written(function: Any, events: list[str], state: torch.Tensor) -> Callable[..., Any]:
    """A tensor is written to before and after the call."""

    def program(*args: Any, **kwargs: Any) -> Any:
        state.add_(1)
        result = function(*args, **kwargs)
        state.add_(10)
        return result

    return program


PROGRAMS = {each.__name__: each for each in (read, unread, caught, written)}


# What is seen of a call --------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a caller sees: the exception or the result, the lines of this file, and the effects."""

    error: type[BaseException] | None
    text: str
    lines: tuple[int, ...]
    effects: tuple[Any, ...]
    result: Any = None


def see(make: Any, case: Case, backend: str | None, backward: bool = False) -> Seen:
    """Make one call; compiled, unless there is no backend."""
    events: list[str] = []
    state = torch.zeros(2)
    program = make(case.function, events, state)
    fast = program if backend is None else minitorch2.compile(program, backend=backend)
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    if backward:
        args, kwargs = tree_map_only(torch.Tensor, _differentiable, (args, kwargs))
    torch.manual_seed(0)
    error, text, lines, result = None, "", [], None
    with warnings.catch_warnings(), config.patch(suppress_errors=False):
        warnings.simplefilter("ignore")
        try:
            result = fast(*args, **kwargs)
            if backward:
                _sum(result).backward()
        except Exception as caught_error:
            error, text = type(caught_error), str(caught_error).split("\n")[0]
            frames = traceback.extract_tb(caught_error.__traceback__)
            lines = [f.lineno for f in frames if f.filename == __file__ and f.name == "program"]
    kept = result.tolist() if make is caught and isinstance(result, torch.Tensor) else None
    effects = (*events, *state.tolist(), kept, torch.rand(()).item() if make is caught else None)
    return Seen(error, text, tuple(lines), effects)


def _differentiable(tensor: torch.Tensor) -> torch.Tensor:
    is_float = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_() if is_float else tensor


def _sum(result: Any) -> torch.Tensor:
    leaves = result if isinstance(result, (tuple, list)) else [result]
    floats = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    return sum((t.abs().sum() for t in floats), torch.zeros((), requires_grad=True))


def compare(case: Case, program: str, backend: str, backward: bool = False) -> tuple[str, str]:
    """A status and what is different; "" if eager raises nothing, and neither do we."""
    make = PROGRAMS[program]
    wanted = see(make, case, None, backward)
    minitorch2.reset()
    given = see(make, case, backend, backward)
    if wanted.error is None and given.error is None and wanted.effects == given.effects:
        was_caught = program == "caught" and isinstance(wanted.effects[0], str)
        return "same" if was_caught else "", ""
    note = f"{_shown(given)} instead of {_shown(wanted)}"
    if given.error is not wanted.error:
        ours = given.error is not None and given.error.__module__.startswith("minitorch2")
        return "internal" if ours else "class", note
    if given.effects != wanted.effects:
        return "effects", f"{given.effects} instead of {wanted.effects}"
    if given.lines != wanted.lines:
        return "line", f"{given.lines} instead of {wanted.lines}: {wanted.text[:80]}"
    return ("same", "") if given.text == wanted.text else ("text", note)


def _shown(seen: Seen) -> str:
    return "no error" if seen.error is None else f"{seen.error.__name__}({seen.text[:90]!r})"


# Where the calls come from -----------------------------------------------------------------------


def of_operators(names: set[str] | None) -> Iterator[Case]:
    """What PyTorch's operator database holds for error messages."""
    for name, op in OPERATORS.items():
        if op.error_inputs_func is None or (names and op.name not in names and name not in names):
            continue
        try:
            inputs = [error.sample_input for error in op.error_inputs("cpu")]
        except Exception:  # the database's own functions fail on some machines
            continue
        function = function_of(op)
        for number, sample in enumerate(inputs):
            args = (sample.input, *sample.args)
            yield Case(f"{name} {number}", function, args, dict(sample.kwargs))


def of_modules(names: set[str] | None) -> Iterator[Case]:
    """What the module database holds: modules that raise when they are called."""
    for info in module_db:
        if info.module_error_inputs_func is None or (names and info.name not in names):
            continue
        inputs = info.module_error_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
        for number, error in enumerate(inputs):
            if error.error_on == ModuleErrorEnum.FORWARD_ERROR:
                given = error.module_error_input
                made = given.constructor_input
                module = info.module_cls(*made.args, **made.kwargs)
                call = given.forward_input
                yield Case(f"{info.name} {number}", module, call.args, dict(call.kwargs))


def of_values(names: set[str] | None) -> Iterator[Case]:
    """The table of calls that values make raise."""
    for name, (function, args) in VALUE_ERRORS.items():
        if not names or name in names:
            yield Case(name, function, args)


def of_extremes(names: set[str] | None) -> Iterator[Case]:
    """Samples of the operator database in which one tensor is filled with an extreme value."""
    for name, op in OPERATORS.items():
        if names and op.name not in names and name not in names:
            continue
        if op.name.startswith(DEADLY):
            continue
        for dtype in (torch.float32, torch.int64):
            if dtype in op.dtypes:
                yield from _extremes_of(op, dtype)


def _extremes_of(op: OpInfo, dtype: torch.dtype) -> Iterator[Case]:
    try:
        samples = samples_of(op, dtype, 2)
    except Exception:  # the database's own functions fail for some dtypes
        return
    function = function_of(op)
    for number, sample in enumerate(samples):
        places: list[Any] = [sample.input, *sample.args, *sample.kwargs.values()]
        for place, value in enumerate(places):
            if isinstance(value, torch.Tensor) and value.numel() and not value.dtype.is_complex:
                for extreme in _extremes(value):
                    filled = [*places]
                    filled[place] = torch.full_like(value, extreme)
                    cut = len(sample.args) + 1
                    named = dict(zip(sample.kwargs, filled[cut:], strict=True))
                    label = f"{name_of(op)} {dtype} {number}.{place}={extreme}"
                    yield Case(label, function, tuple(filled[:cut]), named)


def _extremes(value: torch.Tensor) -> tuple[Any, ...]:
    if value.dtype is torch.bool:
        return (True, False)
    if value.is_floating_point():
        return (0.0, -1.5, NAN, INF)
    return (0, 99) if value.dtype is torch.uint8 else (0, -1, 99)


KINDS = {
    "operators": of_operators,
    "modules": of_modules,
    "values": of_values,
    "extremes": of_extremes,
}


# The sweep ---------------------------------------------------------------------------------------


def rows(options: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Name, status and note of each call in each program; nothing for calls that do not raise."""
    names = set(options.only.split(",")) if options.only else None
    for kind in options.kinds.split(","):
        for number, case in enumerate(KINDS[kind](names)):
            place = f"{kind}:{number}"
            if options.after and _is_before(place, options.after, options.kinds):
                continue
            print(json.dumps(["begun", place, case.name]), flush=True)
            for program in options.programs.split(","):
                try:
                    with time_limit(options.seconds):
                        status, note = compare(case, program, options.backend, options.backward)
                except Exception as error:
                    status, note = "internal", f"{type(error).__name__}: {str(error)[:200]}"
                if status:
                    yield f"{case.name} [{program}]", status, note


def _is_before(place: str, after: str, kinds: str) -> bool:
    """Whether a call comes no later than another."""
    order = kinds.split(",")
    (kind, number), (last_kind, last) = place.split(":"), after.split(":")
    return (order.index(kind), int(number)) <= (order.index(last_kind), int(last))


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tests.operators.error_sweep", description=__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--backend", choices=BACKENDS, default="eager")
    parser.add_argument("--backward", action="store_true", help="inputs need gradients")
    parser.add_argument("--only", help="names of operators, modules or calls")
    parser.add_argument("--seconds", type=int, default=60, help="time a call")
    parser.add_argument("--text", action="store_true", help="list other texts, too")
    parser.add_argument("--after", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def reports(arguments: list[str]) -> Iterator[list[str]]:
    """What workers report; one that dies leaves its place, behind which another goes on."""
    after: str | None = None
    while True:
        command = [sys.executable, "-m", "tests.operators.error_sweep", *arguments, "--worker"]
        command += [] if after is None else ["--after", after]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        case = ""
        for line in worker.stdout:
            if line.startswith('["begun"'):
                _, after, case = json.loads(line)
            elif line.startswith('["'):
                yield json.loads(line)
        if worker.wait() == 0 or after is None:
            return
        yield [case, "died", f"the process ended with status {worker.returncode}"]


def main(arguments: list[str]) -> int:
    """Run and report; 1 if anything is not as in eager."""
    options = parse(arguments)
    if options.worker:
        torch.set_num_threads(1)
        for row in rows(options):
            print(json.dumps(list(row)), flush=True)
        return 0
    counts: Counter[str] = Counter()
    for name, status, note in reports(arguments):
        counts[status] += 1
        if status in WRONG or status == "died" or (options.text and status == "text"):
            print(f"{status:8} {name}: {note}", flush=True)
    print(", ".join(f"{counts[status]} {status}" for status in (*STATUSES, "died")))
    return int(any(counts[status] for status in WRONG))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
