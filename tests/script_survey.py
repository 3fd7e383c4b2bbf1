"""Counts the programs that compile as scripts and are right, and why others do not.

A program is a function of torch.nn.functional, which only has to compile, or a model that the zoo
of benchmarks or an installed package makes: its script must give eager's results, gradients and
buffers, and an archive of it that torch.jit reads must give its results again.

python -m tests.script_survey                       functions and modules of torch.nn
python -m tests.script_survey vision                the models of timm, if it is installed
python -m tests.script_survey modules LSTM GRU      the whole error of each program named
"""

import inspect
import io
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import ModuleType

import torch
import torch.nn.functional as functional

from benchmarks.zoo.observe import difference, leaves, observe
from benchmarks.zoo.programs import MODULE, Program, programs
from minitorch2 import jit
from minitorch2.script.archive.container import ArchiveError
from minitorch2.script.frontend.compile import compile_function
from minitorch2.script.syntax.errors import ScriptError

Check = Callable[[], None]

# Decorators and other parts of the module that no model calls.
NO_PROGRAMS = {"boolean_dispatch", "handle_torch_function", "assert_int_or_pair"}
SEEDS = (1, 2, 1)
"""The first call is profiled, the second one runs the plan that was made of it."""

SIDE, CHANNELS = 64, 3


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
    """The smallest model of each architecture that timm has, with random weights."""
    for part in ("_meta_registrations", "_autograd_registrations"):
        # They need operators that may not load here, and that no classifier calls.
        sys.modules.setdefault(f"torchvision.{part}", ModuleType(part))
    timm = import_module("timm")
    for family in timm.list_modules():
        name = min(timm.list_models(module=family), key=lambda name: (len(name), name), default="")
        if name:
            yield name, partial(check_model, vision_program(timm, name))


def vision_program(timm, name: str) -> Program:
    def inputs(model):
        made_for = model.pretrained_cfg
        size = made_for["input_size"] if made_for["fixed_input_size"] else (CHANNELS, SIDE, SIDE)
        return (torch.randn(2, *size),), {}

    return Program(name, "inference", lambda: timm.create_model(name, num_classes=7), inputs)


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


SUITES = {"functions": functions, "modules": modules, "vision": vision}


def error_of(check: Check) -> Exception | None:
    try:
        check()
    except Exception as error:
        return error
    return None


def reason(error: Exception) -> str:
    """The error without names and places, to be counted."""
    if not isinstance(error, ScriptError):
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0:1]}"[:160]
    return f"{error.code}: {error.cause.splitlines()[0]}"[:220]


def survey(suite: str, names: list[str]) -> None:
    found = {}
    for name, check in SUITES[suite]():
        if names and name not in names:
            continue
        found[name] = error = error_of(check)
        print(f"{name}: {'right' if error is None else 'refused'}", file=sys.stderr, flush=True)
        if names and error is not None:
            print(f"--- {name}")
            traceback.print_exception(error, limit=-4)
    refused = {name: reason(error) for name, error in found.items() if error is not None}
    for text, count in Counter(refused.values()).most_common():
        examples = [name for name, other in refused.items() if other == text]
        print(f"{count:4}  {text}\n      {', '.join(examples[:4])}")
    print(f"{len(found) - len(refused)} of {len(found)} {suite} are scripted and right", flush=True)


def main(arguments: list[str]) -> None:
    suites = [name for name in arguments if name in SUITES] or ["functions", "modules"]
    names = [name for name in arguments if name not in SUITES]
    for suite in suites:
        survey(suite, names)


if __name__ == "__main__":
    main(sys.argv[1:])
