"""The checks of a call of an exported program: arguments against its signature.

Each error names the argument in the user's words, says which form the program serves, and what was
given.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import Any, Final

import torch

from minitorch2.errors import ExportError
from minitorch2.exporting.signature import Input, Signature, TensorForm
from minitorch2.native.torch_internals.pytree import TreeSpec, tree_flatten, tree_unflatten

_TRIED: Final = 64
_FUNCTIONS: Final = {"max": max, "min": min, "abs": abs, "int": int, "float": float}


class Checker:
    """The checks of calls with one signature."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.users = signature.of_kind("user")
        self.conditions: list[CodeType] = [
            compile(each.text, "<condition>", "eval") for each in signature.conditions
        ]
        self.fixed = [place for place, each in enumerate(self.users) if each.form is None]
        self.structure: TreeSpec = signature.arguments

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the checked leaves of a call's arguments.

        Raises:
            ExportError: they have another structure, or one of them another form or value.
        """
        leaves, structure = tree_flatten((args, kwargs))
        if structure != self.structure:
            given, wanted = map(_shown, (structure, self.structure))
            raise _refused(
                f"the arguments have the structure {given}, and the program takes {wanted}",
                "pass the same positional and keyword arguments, and containers, as when exporting",
            )
        self.check(leaves)
        return leaves

    def check(self, leaves: Sequence[Any]) -> dict[str, int]:
        """Check the leaves; return the sizes that vary.

        Raises:
            ExportError: a leaf has another form or value.
        """
        sizes: dict[str, int] = {}
        for each, leaf in zip(self.users, leaves, strict=True):
            if each.form is not None:
                _check_tensor(each, each.form, leaf, sizes)
            elif type(leaf) is not type(each.value) or leaf != each.value:
                raise _refused(
                    f"argument {each.target} is {leaf!r}; the program was exported for "
                    f"{each.value!r}", "pass that value, or export once more"
                )  # fmt: skip
        for name, symbol in self.signature.symbols.items():
            if not symbol.low <= sizes[name] <= symbol.high:
                raise _refused(
                    f"size {symbol.shown} is {sizes[name]}; the program serves {symbol}",
                    "export with a Dim of other limits",
                )
        self._check_computed(sizes)
        self._check_conditions(sizes)
        return sizes

    def _check_computed(self, sizes: dict[str, int]) -> None:
        """Check dimensions that are computed from other sizes: ``2*s0``."""
        names = {"__builtins__": _FUNCTIONS, **sizes}
        for text in sizes.keys() - self.signature.symbols.keys():
            if eval(text, names) != sizes[text]:
                shown = text
                for name, symbol in self.signature.symbols.items():
                    shown = shown.replace(name, symbol.shown)
                wanted = eval(text, names)
                raise _refused(
                    f"a dimension has size {sizes[text]}; the program needs {shown}, which is "
                    f"{wanted}", "pass tensors whose sizes fit"
                )  # fmt: skip

    def _check_conditions(self, sizes: dict[str, int]) -> None:
        names = {"__builtins__": _FUNCTIONS, **sizes}
        for code, condition in zip(self.conditions, self.signature.conditions, strict=True):
            if not eval(code, names):
                values = ", ".join(
                    f"{symbol.shown} = {sizes[name]}"
                    for name, symbol in self.signature.symbols.items()
                    if name in code.co_names
                )
                where = f", as this line says: {condition.line}" if condition.line else ""
                raise _refused(
                    f"the program needs {condition.shown}, and {values}{where}",
                    f"{self._nearest(sizes)}, or export with an example of these",
                )

    def _nearest(self, sizes: dict[str, int]) -> str:
        """Return advice: for one of the sizes, the nearest ones that are served beside the others.

        Sizes are tried up to `_TRIED` away from the given one.
        """
        for name, symbol in self.signature.symbols.items():
            size = sizes[name]
            low, high = max(symbol.low, size - _TRIED), min(symbol.high, size + _TRIED)
            served = [n for n in range(low, int(high) + 1) if self._serves({**sizes, name: n})]
            below = [n for n in served if n < size][-1:]
            near = [*below, *[n for n in served if n > size][:1]]
            if near:
                return f"pass {symbol.shown} = {' or '.join(map(str, near))}"
        return "pass other sizes"

    def _serves(self, sizes: dict[str, int]) -> bool:
        names = {"__builtins__": _FUNCTIONS, **sizes}
        return all(eval(code, names) for code in self.conditions)


class _Leaf:
    def __repr__(self) -> str:
        return "_"


def _shown(structure: TreeSpec) -> str:
    """Return a structure of arguments as a call: ``(_, {'mask': _}), flip=_``."""
    args, kwargs = tree_unflatten([_Leaf()] * structure.num_leaves, structure)
    named = "".join(f", {name}={value}" for name, value in kwargs.items())
    return f"{args}{named}"


def _check_tensor(each: Input, form: TensorForm, leaf: Any, sizes: dict[str, int]) -> None:
    if not isinstance(leaf, torch.Tensor):
        raise _refused(
            f"argument {each.target} is a {type(leaf).__name__}; the program takes {form}",
            "pass a tensor",
        )
    if leaf.layout is not torch.strided:
        raise _misfit(each, f"has layout {leaf.layout}", f"pass {each.target}.to_dense()")
    if leaf.dtype != form.dtype:
        raise _misfit(each, f"has dtype {leaf.dtype}", f"pass {each.target}.to({form.dtype})")
    if leaf.device.type != form.device.type:
        raise _misfit(each, f"is on {leaf.device}", f"pass {each.target}.to('{form.device}')")
    if leaf.dim() != len(form.shape):
        raise _misfit(each, f"has {leaf.dim()} dimensions", "pass a tensor of that form")
    for dimension, (size, wanted) in enumerate(zip(leaf.shape, form.shape, strict=True)):
        if isinstance(wanted, str):
            if sizes.setdefault(wanted, size) != size:
                what = f"has size {size} at dimension {dimension}, and others have {sizes[wanted]}"
                raise _misfit(each, what, "pass tensors whose sizes fit")
        elif size != wanted:
            what = f"has size {size} at dimension {dimension}"
            fix = f"export with dynamic_shapes, and a Dim for dimension {dimension}"
            raise _misfit(each, what, fix)


def _misfit(each: Input, what: str, fix: str) -> ExportError:
    return _refused(f"argument {each.target} {what}; the program takes {each.form}", fix)


def _refused(cause: str, fix: str) -> ExportError:
    return ExportError(cause, code="export-call", fix=fix)
