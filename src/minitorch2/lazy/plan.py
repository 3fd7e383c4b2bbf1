"""Plans say how operators are recorded; each is made once, from the operator's schema and tags.

    plan ::= record | now (it draws random numbers) | in Python (`fallback.py`)

Recorded are operators that take and give plain tensors (the LazyTensor paper, section 3, calls them
compatible with the IR). Only the text of a schema tells a size (``SymInt``) from other integers:
sizes and scalars may vary from step to step, other integers are part of the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import torch

from minitorch2.autograd.schemas import alias_facts
from minitorch2.graph.fake_tensor import flat
from minitorch2.lazy.value import Operator

aten = torch.ops.aten


class Way(Enum):
    """The ways to treat a call of an operator."""

    RECORD = "recorded"
    DRAW = "run at once, for it draws random numbers"
    RESHAPE = "recorded as a view, for it changes only the metadata of its argument"
    SIZE = "recorded as the view of a size, which another tensor has"
    ZEROS = "recorded as zeros, for kernels cannot read the tensor without memory that it makes"
    FORM = "answered from the form of its arguments, whose data it does not read"
    FALL_BACK = "run in eager mode"
    PASS = (
        "run at once, for it computes nothing: it makes or marks a tensor, or a time of a profile"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The facts about an operator that recording needs; there is one plan for each operator.

    Attributes:
        func: the operator.
        way: what is done with a call.
        is_recorded: whether it is recorded.
        runs_ordinarily: whether a call with ordinary tensors may run before it is known to be one
            that a step holds.
        varies: for each argument, whether its numbers may vary from step to step.
        varies_by_name: the same by the arguments' names.
        written: the position of each argument that is written; the name if it must be named.
        returned: for each result, the written argument that it is; None for a new tensor.
        gives_one: whether the result is one new tensor.
        is_view: whether the result shows the memory of the first argument.
        is_list: whether the operator returns a list.
        reads_offset: whether the result depends on where a tensor begins in its memory.
        sizes_by_floats: whether the size of a result may depend on floats.
        sized_by_data: whether the sizes of results may depend on data.
        counts_writes: whether PyTorch leaves it to the kernel to count a write as a new version.
    """

    func: Operator
    way: Way
    is_recorded: bool
    runs_ordinarily: bool
    varies: tuple[bool, ...]
    varies_by_name: dict[str, bool]
    written: tuple[int | str, ...]
    returned: tuple[int | str | None, ...]
    gives_one: bool
    is_view: bool
    is_list: bool
    reads_offset: bool
    sizes_by_floats: bool
    sized_by_data: bool
    counts_writes: bool

    def written_by(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments that a call writes, those in lists one by one."""
        return flat(argument_at(place, args, kwargs) for place in self.written)


def argument_at(place: int | str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the argument of a call at a position, or of a name."""
    return args[place] if isinstance(place, int) else kwargs[place]


PLANS: Final[dict[int, Plan]] = {}
"""By identity: PyTorch computes the hash of an operator in Python."""


def plan_of(func: Operator) -> Plan:
    """Return the plan of an operator."""
    plan = PLANS.get(id(func))
    if plan is None:
        plan = PLANS[id(func)] = _make_plan(func)
    return plan


def _make_plan(func: Operator) -> Plan:
    arguments = func._schema.arguments
    kinds = [kind.startswith(_VARYING) for kind in _types(func)]
    varies = {argument.name: kind for argument, kind in zip(arguments, kinds, strict=True)}
    places: dict[str, int | str] = {
        a.name: a.name if a.kwarg_only else position for position, a in enumerate(arguments)
    }
    facts = alias_facts(func)
    returned = tuple(_returned(func, places))
    is_list = len(returned) == 1 and str(func._schema.returns[0].type).startswith("List")
    way, sized_by_data = _way(func), torch.Tag.dynamic_output_shape in func.tags
    return Plan(
        func,
        way,
        way is Way.RECORD,
        way is Way.RECORD and not sized_by_data and func not in _READ_OFFSETS,
        tuple(kinds),
        varies,
        tuple(places[name] for name in facts.written),
        returned,
        returned == (None,) and not is_list and not facts.is_view,
        facts.is_view,
        is_list,
        func in _READ_OFFSETS,
        func.namespace != "aten" or "arange" in func.__name__ or "upsample" in func.__name__,
        sized_by_data,
        bool(facts.written) and func.__name__.startswith("_foreach_"),
    )


_VARYING: Final = ("SymInt", "Scalar", "float", "Tensor")
"""Numbers arrive also where the schema says Tensor: ``x.mul_(0.9)``."""
_READ_OFFSETS: Final = {
    aten.as_strided.default,
    aten.as_strided_.default,
    aten.as_strided_copy.default,
}
_COMPUTE_NOTHING: Final = {
    aten.lift_fresh.default,
    aten.empty.memory_format,
    aten.empty_strided.default,
}
BY_SIZE: Final = {
    aten.expand_as.default: aten.expand.default,
    aten.view_as.default: aten.view.default,
    aten.reshape_as.default: aten.reshape.default,
}
"""Views as large as another tensor. Only inference mode leaves them whole."""
PACK: Final = aten._pack_padded_sequence.default
"""Its second result holds lengths, which recurrent layers read without an operator."""


def _types(func: Operator) -> list[str]:
    """Return the type of each argument, as the schema's text has it."""
    text = str(func._schema)
    inside = text[text.index("(") + 1 : text.rindex(" ->")].rsplit(")", 1)[0]
    parts, depth, start = [], 0, 0
    for position, character in enumerate(inside + ","):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(inside[start:position].strip())
            start = position + 1
    return [part for part in parts if part not in ("*", "")]


def _returned(func: Operator, places: dict[str, int | str]) -> list[int | str | None]:
    """Return, for each result, the place of the written argument that it is."""
    written = {
        frozenset(a.alias_info.before_set): places[a.name]
        for a in func._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    }
    returned: list[int | str | None] = []
    for result in func._schema.returns:
        info = result.alias_info
        names = frozenset(info.before_set) if info is not None and info.is_write else None
        returned.append(None if names is None else written.get(names))
    return returned


def _way(func: Operator) -> Way:
    schema, facts = func._schema, alias_facts(func)
    if func.namespace == "profiler" or func in _COMPUTE_NOTHING:
        return Way.PASS
    if func.namespace not in _NAMESPACES or func is PACK:
        return Way.FALL_BACK
    if func is aten._efficientzerotensor.default:
        return Way.ZEROS
    if func is aten._has_compatible_shallow_copy_type.default:
        return Way.FORM
    if facts.changes_metadata:
        return Way.RESHAPE
    types = [str(result.type) for result in schema.returns]
    if not all(kind == "Tensor" for kind in types) and types != ["List[Tensor]"]:
        return Way.FALL_BACK
    if not types and not facts.written:
        return Way.FALL_BACK
    if func in BY_SIZE:
        return Way.SIZE
    tensors = sum("Tensor" in str(argument.type) for argument in schema.arguments)
    if facts.is_view and (schema.arguments[0].alias_info is None or tensors > 1):
        return Way.FALL_BACK  # a view is made again whenever its base has become data
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    return Way.DRAW if is_random else Way.RECORD


_NAMESPACES: Final = ("aten", "prims")
"""An operator that a user defines runs in eager mode: its effects are unknown."""
