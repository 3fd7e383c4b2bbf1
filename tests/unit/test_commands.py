"""The command line: each command has help and JSON, and the library prints nothing by itself."""

import json
import os
import subprocess
import sys

import pytest

from minitorch2.__main__ import COMMANDS, main

SCRIPT = """
import torch, minitorch2

@minitorch2.compile(backend="eager")
def f(x):
    if x.sum() > 0:  # the graph breaks here
        x = x + 1
    return x.sin()

f(torch.ones(3))
"""
JSON = {
    "doctor": ["--json"],
    "explain": ["--json", "{script}"],
    "explore": ["--json", "{script}"],
    "profile": ["--json", "--bandwidth", "10", "--peak", "100", "{script}"],
    "bisect": ["--json", "-o", "{folder}/small.py", "{script}"],
    "trace": ["--json", "{folder}/trace"],
    "why": ["--json"],
    "cache": ["info", "--json"],
}
"""The arguments with which each command gives JSON; the demo writes it, as it takes minutes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a script, and with a trace of it; the script's own process prints nothing."""
    made = tmp_path_factory.mktemp("commands")
    (made / "script.py").write_text(SCRIPT)
    return made


def run(folder, *command, **variables):
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | variables, capture_output=True,
        text=True, check=True,
    )  # fmt: skip


def test_nothing_is_printed_where_nothing_is_asked(folder):
    ran = run(folder, "script.py", MINITORCH2_TRACE=str(folder / "trace"))
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_profile_prints_nothing_beside_the_script_and_the_profile(folder):
    (folder / "plain.py").write_text("import torch\ntorch.ones(3).cos()\n")
    limits = ["--bandwidth", "10", "--peak", "100"]
    ran = run(folder, "-m", "minitorch2", "profile", *limits, "plain.py")
    assert ran.stderr == "" and " ms running, " in ran.stdout.splitlines()[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    told = capsys.readouterr()
    assert told.out.startswith("usage: python -m minitorch2 " + name) and told.err == ""
    assert "--json" in told.out or name in ("cache", "demo")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "demo"])
def test_each_command_gives_json(name, folder, capfd):
    if name == "trace":
        run(folder, "script.py", MINITORCH2_TRACE=str(folder / "trace"))
    paths = {"folder": folder, "script": folder / "script.py"}
    assert main([name, *(each.format(**paths) for each in JSON[name])]) in (0, 1)
    printed = capfd.readouterr().out
    assert json.loads(printed) and printed.startswith(("{", "["))


@pytest.mark.parametrize("command", ["explore", "profile", "bisect"])
def test_a_script_does_not_run_if_there_is_no_folder_for_the_output(command, folder, capsys):
    script = folder / "raises.py"
    script.write_text("raise AssertionError('it ran')")
    for output, words in ((folder / "no" / "page", "there is no folder"), (folder, "is a folder")):
        with pytest.raises(SystemExit, match="2"):
            main([command, "-o", str(output), str(script)])
        assert words in capsys.readouterr().err
