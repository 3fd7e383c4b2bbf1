"""Names of modules as programs give them: a program may set ``__module__`` to anything."""

from __future__ import annotations


def package_of(module: object) -> str:
    """Return the top-level package in a module's name; empty if `module` is not a string.

    >>> package_of("torch.nn.modules.linear"), package_of(None)
    ('torch', '')
    """
    return module.partition(".")[0] if isinstance(module, str) else ""


def is_in_package(module: object, package: str) -> bool:
    """Return whether `module` names the package `package` or a module inside it.

    >>> is_in_package("torch.nn.modules", "torch.nn"), is_in_package(None, "torch")
    (True, False)
    """
    return isinstance(module, str) and f"{module}.".startswith(f"{package}.")
