"""The runner of the nets: a turn that tries nothing has caught something."""

from __future__ import annotations

import os

import pytest

from tests.nets.__main__ import cast_once, environment
from tests.nets.registry import PYTEST, Net


@pytest.mark.parametrize("command", [PYTEST + "no_such_file.py", PYTEST.split()[0] + " --version"])
def test_a_turn_that_tries_nothing_counts_as_crashed(command: str) -> None:
    tally = cast_once(Net("nothing", command, 1), seed=0)
    assert tally.crashed == 1 and tally.tried == 1
    assert "crashed: " in tally.failures[0]


def test_a_turn_finds_the_packages_that_its_runner_finds(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    paths = environment(tmp_path / "report.json")["PYTHONPATH"].split(os.pathsep)
    assert paths[-1] == str(tmp_path)
