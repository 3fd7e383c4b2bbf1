"""Every code of an error is explained by `python -m minitorch2 why`, and each that is, is used."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import __main__ as program
from minitorch2.bytecode.compiling.reasons import reasons
from minitorch2.demo.why import explained
from minitorch2.errors.codes import ERROR_CODES

FILES = [
    path
    for path in Path(minitorch2.__file__).parent.rglob("*.py")
    if path.name not in ("reasons.py", "codes.py")
]


def codes_in(path):
    for node in ast.walk(ast.parse(path.read_text())):
        values = []
        if isinstance(node, ast.Call):
            values = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            values = [node.value] if getattr(target, "id", "") == "default_code" else []
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def test_every_code_is_explained_and_every_explanation_is_of_a_code():
    used = {code for path in FILES for code in codes_in(path)}
    assert used - set(explained()) == set()
    assert set(ERROR_CODES) - used == set()
    assert not set(ERROR_CODES) & set(reasons())
    for code, (meaning, remedy) in explained().items():
        assert meaning and remedy and code == code.lower(), code


def test_the_table_has_its_codes_in_order():
    assert list(ERROR_CODES) == sorted(ERROR_CODES)  # TOML refuses a code that is there twice


def said(capsys, *arguments):
    assert program.main(arguments) == 0
    return capsys.readouterr().out


def test_why_explains_a_code(capsys):
    text = said(capsys, "why", "data-dependent-branch")
    assert "depends on the data of a tensor" in text and "What helps: use torch.where" in text
    assert said(capsys, "why", "[option-range]").startswith("[option-range]\nAn option")
    assert "option-range" in json.loads(said(capsys, "why", "--json", "[option-range]"))
    assert "one output" in said(capsys, "why", "output-comes-last")


def test_why_alone_lists_them(capsys):
    lines = said(capsys, "why").splitlines()
    assert [line.split()[0] for line in lines] == sorted(explained())


def test_an_unknown_code_names_the_nearest(capsys):
    assert program.main(["why", "option-rang"]) == 1
    assert "did you mean 'option-range'" in capsys.readouterr().err


def test_errors_say_the_command():
    def breaks(x):
        minitorch2.graph_break()
        return x + 1

    with pytest.raises(minitorch2.errors.GraphBreakError) as caught:
        minitorch2.compile(breaks, backend="eager", fullgraph=True)(torch.ones(3))
    assert "See python -m minitorch2 why graph-break" in str(caught.value)


def test_the_version_is_told():
    command = [sys.executable, "-m", "minitorch2", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"minitorch2 {minitorch2.__version__}\n"
