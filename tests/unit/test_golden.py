"""Golden texts: a missing or different file fails until somebody asks for new ones."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
from pathlib import Path

def test(golden):
    golden(Path(__file__).with_name("kernel.txt"), "new")
"""


@pytest.fixture
def run(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize("before", [None, pytest.param("old", marks=pytest.mark.slow)])
def test_golden_files_are_written_on_request_only(run, tmp_path, before):
    """A deleted fixture used to be written anew without a word."""
    path = tmp_path / "kernel.txt"
    if before is not None:
        path.write_text(before)
    status, printed = run()
    assert status == 1 and "--update-golden" in printed
    assert (path.read_text() if path.exists() else None) == before
    assert run("--update-golden")[0] == 0
    assert path.read_text() == "new"
    assert run()[0] == 0
