"""Errors: the user's line first, then cause and fix."""

import pickle

import pytest

from minitorch2 import errors
from minitorch2.errors import ConfigError, MinitorchError, UnsupportedError

CLASSES = [
    c
    for c in vars(errors).values()
    if isinstance(c, type) and c.__module__ == errors.__name__ and not issubclass(c, Warning)
]


def test_message_is_line_then_cause_then_fix():
    error = UnsupportedError(
        "a generator is not modelled",
        code="generator",
        fix="return a list",
        user_line='File "model.py", line 3: for x in gen():',
    )
    assert str(error).splitlines() == [
        'File "model.py", line 3: for x in gen():',
        "a generator is not modelled [generator]",
        "Fix: return a list",
    ]


def test_code_defaults_to_the_class():
    assert str(ConfigError("no")) == "no [config]"


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_is_a_minitorch_error_with_its_own_code(kind):
    assert issubclass(kind, MinitorchError)
    assert sum(other.default_code == kind.default_code for other in CLASSES) == 1


def test_errors_survive_pickling():
    again = pickle.loads(pickle.dumps(UnsupportedError("no", code="c", fix="f", user_line="l")))
    assert str(again) == str(UnsupportedError("no", code="c", fix="f", user_line="l"))


def test_cautions_are_user_warnings():
    """`python -W error::UserWarning` and filters of that category see them."""
    assert issubclass(errors.MinitorchWarning, UserWarning)
