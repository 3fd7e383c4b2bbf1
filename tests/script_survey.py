"""Counts the programs that compile as scripts or traces and are right, and why others do not.

A program is a function of torch.nn.functional, which only has to compile, a module of torch.nn, a
model of timm, or a class of module of an installed package (`tests.script_sample`). The script of a
module of torch.nn must give eager's results, gradients and buffers, and an archive of it that
torch.jit reads must give its results again. The script of a model or of a class of a package, in
evaluation mode, must give eager's results.

python -m tests.script_survey                       functions and modules of torch.nn
python -m tests.script_survey forwards              the classes of torch.nn that define `forward`
python -m tests.script_survey vision                the models of timm, if it is installed
python -m tests.script_survey vision --stop 40      the first of them
python -m tests.script_survey packages              classes drawn from the packages that there are
python -m tests.script_survey saved loaded          archives, ours in torch.jit and the other way
python -m tests.script_survey trees                 our parser beside Python's, on torch.nn
python -m tests.script_survey traces peer sizes     functions whose traces could be wrong
python -m tests.script_survey modules LSTM GRU      the whole error of each program named

Each program has a process of its own, and is refused after `LIMIT` seconds of computing.
"""

import argparse
import ast
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
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn

from benchmarks.zoo.observe import difference, leaves, observe
from benchmarks.zoo.programs import MODULE, Program, programs
from minitorch2 import jit
from minitorch2.script.archive.container import ArchiveError
from minitorch2.script.frontend.compile import compile_function
from minitorch2.script.syntax.errors import ScriptError
from minitorch2.script.syntax.reading import source_of
from tests.script_sample import SOURCES, Source
from tests.unit.script.test_syntax_parser import assert_same, functions_of
from tests.unit.script.test_tracing_assumptions import (
    silently_wrong,
    test_an_unsound_function_is_refused_with_its_line_or_right,
)
from tests.unit.script.test_tracing_sizes import (
    FUNCTIONS,
    test_a_trace_holds_for_ten_other_sizes_or_refuses_with_a_line,
)
from tests.unit.script.trace_programs import UNSOUND

Check = Callable[[], None]

# Decorators and other parts of the module that no model calls.
NO_PROGRAMS = {"boolean_dispatch", "handle_torch_function", "assert_int_or_pair"}
SEEDS = (1, 2, 1)
"""The first call is profiled, the second one runs the plan that was made of it."""

SAMPLE = 30
"""Classes of each package, and archives of each kind."""
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


def forwards() -> Iterator[tuple[str, Check]]:
    """The classes of `torch.nn.modules` with a `forward` of their own, by a program of each."""
    found: dict[type | None, Program] = {}
    of_parts: dict[type | None, Program] = {}
    for program in programs():
        if program.suite == MODULE:
            whole, *parts = map(owner_of_forward, program.make().modules())
            found.setdefault(whole, program)
            of_parts = dict.fromkeys(parts, program) | of_parts
    found = of_parts | found
    classes = sorted(classes_with_forward(), key=lambda cls: cls.__name__)
    for cls in classes:
        yield cls.__name__, partial(check_model_of, found.get(cls))
    definitions = sum(map(definitions_of_forward, Path(nn.modules.__file__).parent.glob("*.py")))
    others = definitions - len(classes)
    print(
        f"{definitions} definitions of `forward` in torch.nn.modules: {len(classes)} of modules, "
        f"{others} of overloads without a body and of autograd functions",
        file=sys.stderr,
    )


def classes_with_forward() -> set[type]:
    """Return the classes of modules that define `forward` in a file of `torch.nn.modules`."""
    files = [module for name, module in sys.modules.items() if name.startswith("torch.nn.modules.")]
    classes = [c for file in files for c in vars(file).values() if isinstance(c, type)]
    return {c for c in classes if issubclass(c, nn.Module) and is_owner(c)}


def is_owner(cls: type) -> bool:
    is_defined = "forward" in vars(cls) and cls is not nn.Module  # whose own raises
    return is_defined and cls.__module__.startswith("torch.nn.modules.")


def owner_of_forward(module: nn.Module) -> type | None:
    """Return the class of `torch.nn` that defines what a call of a module runs."""
    owner = next((cls for cls in type(module).__mro__ if "forward" in vars(cls)), nn.Module)
    return owner if is_owner(owner) else None


def definitions_of_forward(file: Path) -> int:
    """Count the methods of this name in a file."""
    bodies = (n.body for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ClassDef))
    return sum(isinstance(n, ast.FunctionDef) and n.name == "forward" for b in bodies for n in b)


def check_model_of(program: Program | None) -> None:
    """Check the program of a class.

    Raises:
        ScriptError: the model cannot be scripted.
        WrongError: something differs, or no program calls the class.
    """
    if program is None:
        raise WrongError("no program calls it")
    check_model(program)


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
    try:
        check_archive(program, model)
    except ArchiveError as error:
        if "Python" not in str(error):
            raise


def archived() -> list[Program]:
    """Return modules of torch.nn drawn by a fixed seed, of those whose archives torch.jit runs."""
    drawn = [program for program in programs() if program.suite == MODULE]
    random.Random(0).shuffle(drawn)
    return list(islice(filter(is_run_by_peer, drawn), SAMPLE))


def is_run_by_peer(program: Program) -> bool:
    """Tell whether torch.jit compiles a module, saves it, loads it and calls it."""
    try:
        model = program.build().eval()
        args, kwargs = program.draw(model, 1)
        torch.jit.load(archive_of(torch.jit, model))(*args, **kwargs)
    except Exception:
        return False
    return True


def saved() -> Iterator[tuple[str, Check]]:
    """Archives of ours: torch.jit gives the results of the model."""
    for program in archived():
        yield program.name, partial(check_archive, program, program.build())


def loaded() -> Iterator[tuple[str, Check]]:
    """Archives of torch.jit: we give the results that it gives."""
    for program in archived():
        yield program.name, partial(check_archive_of_peer, program)


def archive_of(writer: Any, model: torch.nn.Module) -> io.BytesIO:
    """Return the archive that a writer, `minitorch2.jit` or `torch.jit`, makes of a model."""
    file = io.BytesIO()
    writer.save(writer.script(model), file)
    file.seek(0)
    return file


def check_archive(program: Program, model: torch.nn.Module) -> None:
    """Compare what torch.jit makes of our archive with the model, in evaluation mode.

    Raises:
        WrongError: something differs.
    """
    args, kwargs = program.draw(model.eval(), 1)
    compare(torch.jit.load(archive_of(jit, model)), model, args, kwargs)


def check_archive_of_peer(program: Program) -> None:
    """Compare what we make of an archive of torch.jit with what torch.jit makes of it.

    Raises:
        WrongError: something differs.
    """
    model = program.build().eval()
    file = archive_of(torch.jit, model)
    ours = jit.load(file)
    file.seek(0)
    compare(ours, torch.jit.load(file), *program.draw(model, 1))


def seeded(call, args, kwargs):
    torch.manual_seed(1)
    return call(*args, **kwargs)


def trees() -> Iterator[tuple[str, Check]]:
    """The functions and methods of torch.nn whose text is to be had."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".nn")[0] == "torch" and name != "torch" and module is not None:
            own = [f for f in functions_of(module) if f.__module__ == name]
            found |= {f"{name}.{f.__qualname__}": f for f in own if f.__name__ != "<lambda>"}
    for name, function in found.items():
        with suppress(ScriptError):
            yield name, partial(assert_same, source_of(function))


def traces() -> Iterator[tuple[str, Check]]:
    """Planted functions: our traces are right for all calls, or are refused with the line."""
    for function in UNSOUND:
        check = test_an_unsound_function_is_refused_with_its_line_or_right
        yield function.__name__, partial(check, function)


def peer() -> Iterator[tuple[str, Check]]:
    """The same functions with torch.jit.trace."""
    for function in UNSOUND:
        yield function.__name__, partial(check_peer, function)


def check_peer(function: Callable) -> None:
    if silently_wrong(function):
        raise WrongError("silently wrong")


def sizes() -> Iterator[tuple[str, Check]]:
    """Traced functions that are called at ten other sizes."""
    for function in FUNCTIONS:
        check = test_a_trace_holds_for_ten_other_sizes_or_refuses_with_a_line
        yield function.__name__, partial(check, function)


Suite = Callable[[], Iterator[tuple[str, Check]]]
SUITES: dict[str, tuple[Suite, str]] = {
    "functions": (functions, "functions of torch.nn.functional are compiled"),
    "modules": (modules, "modules of torch.nn are scripted and right"),
    "forwards": (forwards, "forwards that classes of torch.nn define are scripted and right"),
    "vision": (vision, "models of timm are scripted and right"),
    "packages": (packages, "classes of packages are scripted and right"),
    "saved": (saved, "archives of ours are right in torch.jit"),
    "loaded": (loaded, "archives of torch.jit are right here"),
    "trees": (trees, "functions of torch.nn have the trees of Python's parser"),
    "traces": (traces, "traced functions are right, or refused with their line"),
    "peer": (peer, "functions traced by torch.jit are right or refused"),
    "sizes": (sizes, "traced functions are right at ten other sizes, or refused with a line"),
}


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
    programs_of, claim = SUITES[suite]
    for name, check in islice(programs_of(), chosen.start, chosen.stop):
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
    print(f"{len(found) - len(refused)} of {len(found)} {claim}", flush=True)


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
