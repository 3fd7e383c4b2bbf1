"""minitorch2: PyTorch 2's compiler, small enough to read, fast enough to use.

Takes a PyTorch function or module, gives one with the same meaning that runs faster.

Read the packages in this order, each with its own docstring: `graph` (the language all layers
share), `bytecode` (a Python frame -> a graph), `autograd` (a graph -> forward and backward),
`loopir` (a graph -> loops), `codegen` (loops -> kernels), `backends`, and last `api`, which
chains them. `errors`, `config`, `logs` and `stages` are the basement under all of them.

Names of the public interface are looked up in `minitorch2.api` on first use, so that
`import minitorch2` costs a few milliseconds and a single layer can be used without the others.
"""

from importlib import import_module

__version__ = "0.1.0"

_MODULES = ("config", "errors", "logs", "stages", "testing")
_FROM_API = ("compile", "disable", "explain", "list_backends", "register_backend", "reset")

__all__ = ["__version__", *_FROM_API, *_MODULES]


def __getattr__(name: str) -> object:
    if name in _FROM_API:
        return getattr(import_module("minitorch2.api"), name)
    if name in _MODULES:
        return import_module(f"minitorch2.{name}")
    raise AttributeError(f"module 'minitorch2' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
