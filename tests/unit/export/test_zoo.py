"""Programs exported, saved, packaged, and run where their source is not: equal to eager."""

import copy
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import stages
from tests.unit.export.loaded_in_a_process import flat
from tests.unit.export.zoo import BY_NAME, NAMES, SIZES

SCRIPT = Path(__file__).with_name("loaded_in_a_process.py")


@cache
def exported(name):
    """Export a program once for all tests of this file, which run copies."""
    entry = BY_NAME[name]
    model = entry.make()
    args, kwargs = entry.args(SIZES[0]), entry.kwargs(SIZES[0])
    with stages.collect() as log:
        program = minitorch2.export(model, args, kwargs, dynamic_shapes=entry.shapes)
    assert log.counts.get("frames_as_is", 0) == 0
    return model, program


def assert_same(results, expected):
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(result, wanted)
        else:
            assert type(result) is type(wanted) and result == wanted


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_program_equals_eager(name):
    entry = BY_NAME[name]
    model, program = exported(name)
    module = copy.deepcopy(program.module())
    reference = copy.deepcopy(model)  # both count calls
    with torch.no_grad():
        for n in SIZES:
            args, kwargs = entry.args(n), entry.kwargs(n)
            expected = flat(reference(*args, **kwargs))
            assert_same(flat(module(*args, **kwargs)), copy.deepcopy(expected))
    if isinstance(model, torch.nn.Module):
        assert_same(flat(dict(module.state_dict())), flat(dict(reference.state_dict())))


def run_elsewhere(folder, names, write):
    """Write a file for each program and run all of them in one fresh process."""
    calls, expected = {}, {}
    for name in names:
        entry = BY_NAME[name]
        model, program = exported(name)
        write(program, folder / f"{name}.mt2")
        calls[name] = [(entry.args(n), entry.kwargs(n)) for n in SIZES]
        reference = copy.deepcopy(model)
        with torch.no_grad():
            outputs = [copy.deepcopy(flat(reference(*a, **k))) for a, k in calls[name]]
        expected[name] = outputs
    torch.save(calls, folder / "calls.pt")
    script = folder / "script.py"
    script.write_text(SCRIPT.read_text())
    subprocess.run([sys.executable, script, folder], check=True, cwd=folder)
    results = torch.load(folder / "results.pt", weights_only=True)
    return results, expected, json.loads((folder / "found.json").read_text())


def test_saved_programs_run_in_a_process_without_their_source(tmp_path):
    results, expected, found = run_elsewhere(tmp_path, NAMES, lambda p, path: p.save(path))
    assert not found["errors"]
    for name in NAMES:
        for result, wanted in zip(results[name], expected[name], strict=True):
            assert_same(result, wanted)


def test_packages_run_in_a_process_without_a_compiler(tmp_path):
    results, expected, found = run_elsewhere(tmp_path, NAMES, minitorch2.package)
    assert not found["errors"] and not found["modules"]
    for name in NAMES:
        for result, wanted in zip(results[name], expected[name], strict=True):
            assert_same(result, wanted)
