"""LLVM modules -> optimized object code for this processor -> addresses.

Object code is plain bytes without pointers into this process, so it can be kept on disk and linked
again in another process (`load`), which takes about a millisecond.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from importlib.metadata import version

import llvmlite
import llvmlite.binding as llvm

from minitorch2.cache import digest_of_sources
from minitorch2.errors import BackendError

if llvm.llvm_version_info[0] < 20:
    llvm.initialize()  # later versions do it themselves and refuse the call
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
function_at = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
"""The C function `int32 f(int64)` at an address; a call gives the interpreter lock away."""


@cache
def target_machine() -> llvm.TargetMachine:
    """Return the target machine of all modules that are not compiled in threads."""
    return new_target_machine()


def new_target_machine(level: str = "") -> llvm.TargetMachine:
    """This processor with all its features, or any of a level, with addresses of 64 bits."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    if level:
        return target.create_target_machine(level, opt=3, reloc="static", codemodel="large")
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )


@cache
def toolchain() -> dict[str, str]:
    """Return the properties of sources, compilers and processor that machine code depends on."""
    numbers = ".".join(map(str, llvm.llvm_version_info))
    compilers = f"numba {version('numba')}, llvmlite {llvmlite.__version__}, LLVM {numbers}"
    return {
        "minitorch2": digest_of_sources("native"),
        "compilers": compilers,
        "processor": f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()}",
        "features": llvm.get_host_cpu_features().flatten(),
    }


def parse_alone(text: str) -> tuple[llvm.ModuleRef, llvm.ContextRef]:
    """Parse a module in a context of its own, so that a thread may compile it; return both."""
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context)
    # A context must live longer than its modules. If both are part of a cycle of garbage, as of an
    # exception and its frames, Python may begin with either: so another one holds the context.
    weakref.finalize(module, lambda context: None, context).atexit = False
    return module, context


def standard_pipeline(
    machine: llvm.TargetMachine, *, vectorize: bool = True
) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
    """Return LLVM's standard pipeline (-O3), and the pass builder that runs it."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorize
    options.loop_interleaving = vectorize
    options.slp_vectorization = False  # loops are the only parallelism of a kernel,
    options.loop_unrolling = False  # so they must be loops when the vectorizer comes
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    manager.add_always_inliner_pass()  # what the vectorizer has called
    manager.add_simplify_cfg_pass()
    manager.add_instruction_combine_pass()
    return manager, builder


def optimize(module: llvm.ModuleRef, *, vectorize: bool = True) -> None:
    """Run the standard pipeline over the module, in place."""
    manager, builder = standard_pipeline(target_machine(), vectorize=vectorize)
    manager.run(module, builder)


def emit_object(module: llvm.ModuleRef) -> bytes:
    """Return the module's object code.

    Raises:
        BackendError: it calls a function that this process does not have.
    """
    refuse_missing(module)
    return bytes(target_machine().emit_object(module))


def refuse_missing(module: llvm.ModuleRef) -> None:
    """Raise `BackendError` for a call of a function that this process does not have: LLVM's linker
    would end the process."""
    for function in module.functions:
        name = function.name
        is_external = function.is_declaration and not name.startswith("llvm.")
        if is_external and llvm.address_of_symbol(name) is None:
            raise BackendError(f"no function {name!r} to link with", code="missing-symbol")


def assembly(module: llvm.ModuleRef) -> str:
    """Return the module's assembly text, to read."""
    return str(target_machine().emit_assembly(module))


@cache
def _engine() -> llvm.ExecutionEngine:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def load(object_code: bytes, symbol: str) -> int:
    """Link object code into this process, for as long as it lives; return a function's address."""
    engine = _engine()
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    return int(engine.get_function_address(symbol))
