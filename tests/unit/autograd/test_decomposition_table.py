"""The table as a whole: no decomposition leads back to itself, and how many there are."""

from typing import Any

import networkx
import pytest

from minitorch2.autograd import DECOMPOSITIONS
from minitorch2.autograd.decompositions.public import PUBLIC
from minitorch2.autograd.trace import Tracer
from tests.unit.autograd.programs import joint_of
from tests.unit.autograd.test_decompositions import PROGRAMS


@pytest.fixture(scope="module")
def uses() -> networkx.DiGraph:
    """Which operator's decomposition calls which other operator, in all of the programs."""
    found = networkx.DiGraph()
    plain = Tracer._decompose

    def noting(self: Tracer, func: Any, args: Any, kwargs: Any) -> Any:
        if self._decomposing and self._decomposing[-1] is not func:  # it may end in itself
            found.add_edge(self._decomposing[-1], func)
        return plain(self, func, args, kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tracer, "_decompose", noting)
        for program, inputs in PROGRAMS.values():
            joint_of(program, inputs)
    return found


def test_no_decomposition_leads_back_to_itself(uses: networkx.DiGraph) -> None:
    assert len(uses) > 100
    assert networkx.is_directed_acyclic_graph(uses)


def test_the_table_has_overloads_of_many_operators() -> None:
    operators = {overload.overloadpacket for overload in DECOMPOSITIONS}
    assert len(DECOMPOSITIONS) > 170 and len(operators) > 140
    assert all(not overload._schema.is_mutable for overload in PUBLIC)
