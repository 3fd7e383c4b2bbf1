"""Logging: silent unless asked, and never through the root logger."""

import logging
import subprocess
import sys

import pytest

from minitorch2 import logs


@pytest.fixture
def clean_loggers():
    root = logging.getLogger(logs.ROOT)
    handlers = list(root.handlers)
    yield root
    root.handlers[:] = handlers
    for name in (logs.ROOT, "minitorch2.loopir", "minitorch2.codegen", "minitorch2.graph"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_logger_names():
    assert logs.get_logger("minitorch2.loopir.fusion").name == "minitorch2.loopir.fusion"
    assert logs.get_logger("loopir").name == "minitorch2.loopir"


def test_set_logs_levels(clean_loggers):
    logs.set_logs("+loopir, codegen,-graph")
    levels = [logging.getLogger(f"minitorch2.{n}").level for n in ("loopir", "codegen", "graph")]
    assert levels == [logging.DEBUG, logging.INFO, logging.ERROR]


def test_set_logs_twice_adds_one_handler(clean_loggers):
    before = len(clean_loggers.handlers)
    logs.set_logs("all")
    logs.set_logs("+all")
    assert len(clean_loggers.handlers) == before + 1
    assert clean_loggers.level == logging.DEBUG


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )


def test_library_is_silent_by_default():
    code = "from minitorch2.logs import get_logger; get_logger('minitorch2.x').error('boom')"
    done = run(code)
    assert (done.stdout, done.stderr) == ("", "")


def test_environment_variable_shows_records():
    code = "from minitorch2.logs import get_logger; get_logger('minitorch2.x').debug('boom')"
    assert run(code, MINITORCH2_LOGS="+x").stderr == "D minitorch2.x: boom\n"
