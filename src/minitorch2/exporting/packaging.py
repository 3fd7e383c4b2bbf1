"""`package`: an exported program as machine code for kinds of processors, in one file.

    program --> graph with decompositions --> wrapper module and kernels    as `compile` makes them
    kernels --> object code for each level --> one image for each level     `object_code`
    wrapper --> the same text, which takes its kernels from an image

The file holds ``wrapper.py``, ``code/LEVEL`` and the tensors. `loaded_package` loads it.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sympy
import torch

from minitorch2.autograd.decompositions import DECOMPOSITIONS, REQUIRED_DECOMPOSITIONS
from minitorch2.codegen.compile_graph import GraphCompiler
from minitorch2.codegen.extern import CHECK
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.codegen.spelling import UnspellableError
from minitorch2.errors import ExportError
from minitorch2.exporting import as_json
from minitorch2.exporting.capturing import Captured
from minitorch2.exporting.container import Container, write_container, write_tensors
from minitorch2.exporting.lowering import Lowered
from minitorch2.exporting.machines import known_levels
from minitorch2.exporting.object_code import link_objects
from minitorch2.exporting.program import ExportedProgram
from minitorch2.exporting.signature import Condition, Input, Output, Signature
from minitorch2.graph.fake_tensor import FakeConverter
from minitorch2.graph.graph_module import GraphModule
from minitorch2.graph.passes.simplify_sizes import settle_sizes
from minitorch2.graph.pipeline import run_passes
from minitorch2.graph.runtime_checks import check
from minitorch2.graph.symbols import ShapeEnv
from minitorch2.graph.symbols.ranges import Range
from minitorch2.native.kernels import launcher, openmp
from minitorch2.native.kernels.runtime import KernelSource, link_kernel
from minitorch2.native.llvm import machine_code
from minitorch2.native.torch_internals import tensors
from minitorch2.native.torch_internals.modes import DisableTorchFunction

PROVIDED: Final = (
    "KernelSource", "load_kernel", "join_kernels", "empty_cpu", "with_layout", "copy_to_layout",
    "float_bits",
)  # fmt: skip
"""The functions of minitorch2 that a wrapper calls and that a loaded package has in their place."""


def package(
    program: ExportedProgram,
    path: str | os.PathLike[str],
    *,
    machines: Sequence[str] | None = None,
) -> None:
    """Compile an exported program into one file, which `minitorch2.load` reads.

    Loading it needs torch and NumPy, imports no compiler and compiles nothing. Calls check what the
    signature says and nothing else.

    Args:
        machines: the feature levels to compile for: ``"x86-64-v2"``, ``"x86-64-v3"`` (AVX2),
            ``"x86-64-v4"`` (AVX-512); by default the highest one of this machine.

    Raises:
        ExportError: there is no such kind of machine, or a tensor is not on the CPU, or the program
            is not exported, or calls a function that exists in this process only.
    """
    if not isinstance(program, ExportedProgram):
        raise ExportError(
            f"the program is a {type(program).__name__}, which is not exported", code="export",
            fix="give minitorch2.export(model, args)",
        )  # fmt: skip
    levels = known_levels(machines)
    for each in program.signature.inputs:
        if each.form is not None and each.form.device.type != "cpu":
            raise ExportError(
                f"{each.target} is on {each.form.device}, and packages hold kernels for CPUs",
                code="export", fix="save the program, and compile it where it is loaded",
            )  # fmt: skip
    compiled = _Compiled(program)
    text, kernels = wrapper_for_packages(compiled.source)
    entries: dict[str, bytes] = {"wrapper.py": text.encode()}
    images = {}
    for level in levels:
        image = link_objects(
            [
                *_launcher_objects(level),
                *(_object_code(level, link_kernel(k, s)) for s, k in kernels.items()),
            ]
        )
        entries[f"code/{level}"] = bytes(image.code)
        images[level] = image.description()
    tensors, data = write_tensors({**program.tensors, **compiled.extra})
    manifest = {
        "kind": "package",
        "signature": as_json.write_signature(compiled.signature),
        "tensors": tensors,
        "extra": [*compiled.extra],
        "images": images,
    }
    write_container(path, Container(manifest, {**entries, **data}))


def _launcher_objects(level: str) -> list[bytes]:
    """Return the object code of the launcher, and of the function that it asks for addresses.

    They rely on CPython's interface alone: no place in an object of PyTorch is built in.
    """
    launcher.body()  # lets this process know the functions that the launcher calls
    launch = launcher.build(openmp.addresses() is not None)
    word = tensors.build(tensors.WORD_OF, None)
    modules = [machine_code.parse_alone(str(module))[0] for module in (launch, word)]
    return [_object_code(level, module) for module in modules]


def _object_code(level: str, module: Any) -> bytes:
    """Optimize an LLVM module; return its object code for all processors of a level.

    Its addresses are words of 64 bits, so that a loader needs few kinds of relocations.

    Raises:
        BackendError: it calls a function that this process does not have.
    """
    machine = machine_code.new_target_machine(level)
    manager, builder = machine_code.standard_pipeline(machine)
    manager.run(module, builder)
    machine_code.refuse_missing(module)
    return bytes(machine.emit_object(module))


class _Compiled:
    """A program, compiled.

    Attributes:
        signature: the program's, with what compiling has learned about sizes.
        extra: further tensors that the graph takes behind its inputs.
        source: the wrapper module's text.
    """

    def __init__(self, program: ExportedProgram) -> None:
        captured = with_example(program)
        table = {**REQUIRED_DECOMPOSITIONS, **DECOMPOSITIONS}
        with torch.no_grad(), torch.device("cpu"), DisableTorchFunction():
            lowered = Lowered(captured, {}, table)
            module = GraphModule(lowered.graph)
            run_passes("post_grad", module)
            settle_sizes(module)
            values = [node.meta.get("val") for node in module.graph.placeholders]
            compiled = GraphCompiler(NUMBA)(module, values)
        own = len(captured.inputs)
        self.extra = {f"extra_{i}": t for i, t in enumerate(lowered.examples[own:])}
        try:
            assert compiled.source is not None
            self.source = compiled.source()
        except UnspellableError as reason:
            raise ExportError(f"a package cannot hold the program: {reason}") from None
        old = program.signature
        outputs = tuple(_outputs(old.outputs, lowered.outputs))
        shown = {name: symbol.shown for name, symbol in old.symbols.items()}
        learned = () if lowered.sizes is None else lowered.sizes.conditions(shown)
        known = {each.text: each for each in (*learned, *old.conditions)}
        self.signature = replace(old, outputs=outputs, conditions=tuple(known.values()))


def _outputs(old: Sequence[Output], new: Sequence[Output]) -> list[Output]:
    """Return the outputs of the compiled graph, some of which are known by now."""
    computed = iter(new)
    found = []
    for each in old:
        if each.kind != "value":
            output = next(computed)
            each = output if each.kind == "result" else each
        found.append(each)
    return found


def with_example(program: ExportedProgram) -> Captured:
    """Return a program's graph with an example of its inputs, whose sizes are symbols again.

    The user's tensors are contiguous in the example.
    """
    signature = program.signature
    env, converter = ShapeEnv(duck_shapes=False), FakeConverter()
    sizes: dict[str, Any] = {}
    for name, symbol in signature.symbols.items():
        sizes[name] = env.size_of(env.new_symbol(name, symbol.hint, Range(symbol.low, symbol.high)))
    for condition in signature.conditions:
        _learn(env, condition, sizes)
    module = program.graph_module.copy()
    inputs = [each for each in signature.inputs if each.name]
    examples = [_example(program, each, signature) for each in inputs]
    for node in module.graph.nodes:
        node.meta = {"source": node.meta.get("source"), "symbols": _NewSizes(env)}
        node.target = _state if node.target is check else node.target
    for node, each, example in zip(module.graph.placeholders, inputs, examples, strict=True):
        shape = [_number(size, sizes) for size in each.form.shape] if each.form else []
        varies = any(isinstance(size, torch.SymInt) for size in shape)
        node.meta["val"] = converter.convert(example, shape if varies else None)
    return Captured(module, examples)


def _state(condition: Any, message: str, error: str) -> None:
    """State a condition on sizes, which the compiled graph will check."""
    if isinstance(condition, torch.SymBool):
        condition.node.shape_env.expect(condition.node.expr, message, error)
    else:
        check(condition, message, error)


@dataclass(frozen=True)
class _NewSizes:
    """The numbers of elements that one operator finds: new symbols."""

    env: ShapeEnv

    def __iter__(self) -> Iterator[sympy.Symbol]:
        while True:
            yield self.env.unbacked_symbol(int, Range(0, math.inf))


def _learn(env: ShapeEnv, condition: Condition, sizes: Mapping[str, Any]) -> None:
    with env.running("the signature"):
        holds = eval(condition.text, {"__builtins__": _FUNCTIONS}, dict(sizes))
        assert holds, f"the example does not meet {condition.text}"


_FUNCTIONS: Final = {"float": torch.sym_float, "max": torch.sym_max, "min": torch.sym_min}


def _number(size: int | str, sizes: Mapping[str, Any]) -> Any:
    return size if isinstance(size, int) else eval(size, {"__builtins__": _FUNCTIONS}, dict(sizes))


def _example(program: ExportedProgram, each: Input, signature: Signature) -> torch.Tensor:
    if each.kind != "user":
        return program.tensors[each.target].detach()
    assert each.form is not None
    hints = {name: symbol.hint for name, symbol in signature.symbols.items()}
    shape = [_number(size, hints) for size in each.form.shape]
    return torch.zeros(shape, dtype=each.form.dtype, device=each.form.device)


def wrapper_for_packages(source: str) -> tuple[str, dict[str, KernelSource]]:
    """Return a wrapper's text for packages, and its kernels by the symbols of their entries.

    Raises:
        ExportError: it calls another function of minitorch2 than those that a package has.
    """
    kernels: dict[str, KernelSource] = {}
    body: list[ast.stmt] = []
    for statement in ast.parse(source.replace(CHECK, "check")).body:
        if isinstance(statement, ast.If):
            continue  # it measures the module if it is run alone
        if isinstance(statement, ast.ImportFrom | ast.Import) and _is_own(statement):
            _check_import(statement)
            continue
        call = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "load_kernel":
            kernel = _kernel_of(call)
            symbol = f"kernel_{len(kernels)}"
            kernels[symbol] = kernel
            inner = None if kernel.inner is None else len(kernel.pointers) + kernel.inner
            given = (kernel.name, symbol, len(kernel.pointers) + kernel.sizes, kernel.grain, inner)
            call.args = [ast.Constant(value) for value in given]
        body.append(statement)
    return ast.unparse(ast.Module(body, [])), kernels


def _is_own(statement: ast.ImportFrom | ast.Import) -> bool:
    module = statement.module if isinstance(statement, ast.ImportFrom) else statement.names[0].name
    return (module or "").split(".")[0] == "minitorch2"


def _check_import(statement: ast.ImportFrom | ast.Import) -> None:
    for alias in statement.names:
        if alias.name != CHECK.rpartition(".")[0] and alias.name not in PROVIDED:
            raise ExportError(
                f"a package cannot call {ast.unparse(statement)[5:]}",
                code="export",
                fix="save the program, and compile it where it is loaded",
            )


def _kernel_of(call: ast.Call) -> KernelSource:
    (made,) = call.args
    assert isinstance(made, ast.Call)
    return KernelSource(**{str(k.arg): ast.literal_eval(k.value) for k in made.keywords})
