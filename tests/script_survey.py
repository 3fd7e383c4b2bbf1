"""Counts the programs that compile as scripts and are right, and why others do not.

A program is a function of torch.nn.functional, which only has to compile, a module of torch.nn, a
model of timm, or a class of module of an installed package (`tests.script_sample`). The script of a
module of torch.nn must give eager's results, gradients and buffers, and an archive of it that
torch.jit reads must give its results again. The script of a model or of a class of a package, in
evaluation mode, must give eager's results.

python -m tests.script_survey                       functions and modules of torch.nn
python -m tests.script_survey vision                the models of timm, if it is installed
python -m tests.script_survey vision --stop 40      the first of them
python -m tests.script_survey packages              classes drawn from the packages that there are
python -m tests.script_survey modules LSTM GRU      the whole error of each program named

Each program has a process of its own, and is refused after `LIMIT` seconds of computing.
"""

import argparse
import copy
import inspect
import io
import multiprocessing
import random
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import islice
from time import perf_counter

import torch
import torch.nn.functional as functional

from benchmarks.zoo.observe import difference, leaves, observe
from benchmarks.zoo.programs import MODULE, Program, programs
from minitorch2 import jit
from minitorch2.script.archive.container import ArchiveError
from minitorch2.script.frontend.compile import compile_function
from minitorch2.script.syntax.errors import ScriptError
from tests.script_sample import SOURCES, Source

Check = Callable[[], None]

# Decorators and other parts of the module that no model calls.
NO_PROGRAMS = {"boolean_dispatch", "handle_torch_function", "assert_int_or_pair"}
SEEDS = (1, 2, 1)
"""The first call is profiled, the second one runs the plan that was made of it."""

SAMPLE = 30
"""Classes of each package."""
LIMIT = 90
"""Seconds of computing for one program."""


class WrongError(Exception):
    """A script ran, and its result is not eager's."""


def functions() -> Iterator[tuple[str, Check]]:
    """The functions of torch.nn.functional that are written in Python."""
    for name, found in sorted(vars(functional).items()):
        if not inspect.isfunction(found) or name in NO_PROGRAMS:
            continue
        if found.__module__ == functional.__name__ or "if_true" in found.__code__.co_freevars:
            yield name, partial(check_function, found)


def check_function(function: Callable) -> None:
    """Compile a function, or both that a `boolean_dispatch` chooses from."""
    versions = [function]
    if "if_true" in function.__code__.co_freevars:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__))
        versions = [cells[name].cell_contents for name in ("if_true", "if_false")]
    for version in versions:
        compile_function(version)


def modules() -> Iterator[tuple[str, Check]]:
    """The modules of torch.nn, in training mode."""
    for program in programs():
        if program.suite == MODULE:
            yield program.name, partial(check_model, program)


def vision() -> Iterator[tuple[str, Check]]:
    """A small model of each architecture that timm has, with random weights."""
    for source in SOURCES["timm"]():
        inputs = source.inputs
        program = Program(source.name, "inference", source.build, inputs)
        yield source.name, partial(check_forward, program)


def packages() -> Iterator[tuple[str, Check]]:
    """A sample of the classes of modules of each package, with the arguments that they get."""
    for package, sources in SOURCES.items():
        if find_spec(package) is None:
            print(f"{package} is not installed", file=sys.stderr, flush=True)
            continue
        found: dict[str, Source] = {}
        for source in sources():
            with suppress(Exception):
                found = dict.fromkeys(source.calls(), source) | found
        drawn = random.Random(0).sample(sorted(found), min(SAMPLE, len(found)))
        print(f"{package}: {len(drawn)} of {len(found)} classes", file=sys.stderr, flush=True)
        for name in sorted(drawn):
            yield name, partial(check_call, found[name], name)


def check_call(source: Source, name: str) -> None:
    """Compare the script of a class of a package with eager, on the arguments that it gets.

    Raises:
        ScriptError: the module cannot be scripted.
        WrongError: something differs.
    """
    module, (args, kwargs) = source.calls()[name]
    script = jit.script(module)
    compare(script, module, args, kwargs)


def check_forward(program: Program) -> None:
    """Compare a call of the script of a model with eager, in evaluation mode without gradients.

    The graph runs as it was written: the passes of plans have tests of their own, and take longer.

    Raises:
        ScriptError: the model cannot be scripted.
        WrongError: something differs.
    """
    model = program.build().eval()
    args, kwargs = program.draw(model, SEEDS[0])
    compare(jit.script(model), model, args, kwargs)


def compare(script: jit.ScriptModule, model: torch.nn.Module, args, kwargs) -> None:
    """Compare results; each call has arguments of its own, which it may write to.

    Raises:
        WrongError: they differ.
    """
    calls = [(call, *copy.deepcopy((args, kwargs))) for call in (script, model)]
    with torch.no_grad(), jit.optimized_execution(False):
        got = [dict(leaves(seeded(*call), "output")) for call in calls]
    if found := difference(*got):
        raise WrongError(found)


def check_model(program: Program) -> None:
    """Compare the script of a model with eager, and with what torch.jit makes of its archive.

    Raises:
        ScriptError: the model cannot be scripted.
        WrongError: something differs.
    """
    model = program.build()
    expected = [observe(program, model, model, seed) for seed in SEEDS]
    model = program.build()
    script = jit.script(model)
    for seed, known in zip(SEEDS, expected):
        if found := difference(observe(program, model, script, seed), known):
            raise WrongError(f"seed {seed}: {found}")
    check_archive(program, model, script)


def check_archive(program: Program, model: torch.nn.Module, script: jit.ScriptModule) -> None:
    """Save the script; torch.jit loads it, and its results in evaluation mode are the same."""
    file = io.BytesIO()
    try:
        jit.save(script.eval(), file)
    except ArchiveError as error:
        if "Python" in str(error):
            return
        raise
    file.seek(0)
    loaded = torch.jit.load(file)
    args, kwargs = program.draw(model, 1)
    with torch.no_grad():
        got = [dict(leaves(seeded(call, args, kwargs), "output")) for call in (loaded, script)]
    if found := difference(*got):
        raise WrongError(f"archive: {found}")


def seeded(call, args, kwargs):
    torch.manual_seed(1)
    return call(*args, **kwargs)


SUITES = {
    "functions": functions, "modules": modules, "vision": vision, "packages": packages,
}  # fmt: skip


def error_of(check: Check, shown: bool, sent) -> None:
    """Send the reason why a check fails, and nothing if it does not; show the error on demand."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    try:
        check()
        sent.send("")
    except Exception as error:
        if shown:
            traceback.print_exception(error, limit=-4)
        sent.send(reason(error))


def refusal(check: Check, shown: bool) -> str:
    """Run a check in a process of its own; return why it fails, and an empty text if it does not.

    The process is a copy of this one, which has imported everything.
    """
    context = multiprocessing.get_context("fork")
    received, sent = context.Pipe(duplex=False)
    process = context.Process(target=error_of, args=(check, shown, sent))
    process.start()
    sent.close()
    try:
        return received.recv()
    except EOFError:
        process.join()
        is_late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        return f"more than {LIMIT} seconds" if is_late else "the process ended"
    finally:
        process.kill()
        process.join()


def reason(error: Exception) -> str:
    """The error without names and places, to be counted."""
    if not isinstance(error, ScriptError):
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0:1]}"[:160]
    return f"{error.code}: {error.cause.splitlines()[0]}"[:220]


def survey(suite: str, names: list[str], chosen: slice) -> None:
    found = {}
    for name, check in islice(SUITES[suite](), chosen.start, chosen.stop):
        if names and name not in names:
            continue
        start = perf_counter()
        found[name] = refusal(check, shown=bool(names))
        text = f"refused: {found[name]}" if found[name] else "right"
        print(f"{name}: {text} ({perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    refused = {name: text for name, text in found.items() if text}
    for text, count in Counter(refused.values()).most_common():
        examples = [name for name, other in refused.items() if other == text]
        print(f"{count:4}  {text}\n      {', '.join(examples[:4])}")
    print(f"{len(found) - len(refused)} of {len(found)} {suite} are scripted and right", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="suites and programs")
    parser.add_argument("--start", type=int, help="leave out as many programs")
    parser.add_argument("--stop", type=int, help="leave out what follows so many programs")
    options = parser.parse_args()
    suites = [name for name in options.names if name in SUITES] or ["functions", "modules"]
    names = [name for name in options.names if name not in SUITES]
    for suite in suites:
        survey(suite, names, slice(options.start, options.stop))


if __name__ == "__main__":
    main()
