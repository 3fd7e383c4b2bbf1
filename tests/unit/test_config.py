"""Options: typed, patched per thread, readable from the environment."""

import threading

import pytest

from minitorch2 import config
from minitorch2.errors import ConfigError


def test_patch_changes_and_restores():
    before = config.current()
    with config.patch(recompile_limit=3) as patched:
        assert patched.recompile_limit == config.current().recompile_limit == 3
        with config.patch(dynamic=True):
            assert (config.current().recompile_limit, config.current().dynamic) == (3, True)
    assert config.current() is before


def test_patch_restores_after_an_exception():
    before = config.current()
    with pytest.raises(RuntimeError), config.patch(recompile_limit=3):
        raise RuntimeError
    assert config.current() is before


def test_patch_is_a_decorator_that_works_on_each_call():
    @config.patch(recompile_limit=5)
    def limit() -> int:
        return config.current().recompile_limit

    assert (limit(), limit()) == (5, 5)
    assert config.current().recompile_limit == config.Config().recompile_limit


def test_another_thread_does_not_see_the_patch():
    seen = []
    with config.patch(recompile_limit=3):
        thread = threading.Thread(target=lambda: seen.append(config.current().recompile_limit))
        thread.start()
        thread.join()
    assert seen == [config.Config().recompile_limit]


def test_use_carries_options_to_another_thread():
    seen = []
    with config.patch(recompile_limit=3) as kept:

        def work() -> None:
            with config.use(kept):
                seen.append(config.current().recompile_limit)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [3]


def test_unknown_option_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'recompile_limit'") as caught:
        config.patch(recompil_limit=3)
    assert caught.value.code == "unknown-option"


@pytest.mark.parametrize(
    ("name", "value"),
    [("recompile_limit", "8"), ("recompile_limit", True), ("fullgraph", 1), ("dynamic", 0),
     ("cache_dir", None), ("recompile_limit", 8.0)],
)  # fmt: skip
def test_wrong_type_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        config.patch(**{name: value})


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [("MINITORCH2_RECOMPILE_LIMIT", "16", "recompile_limit", 16),
     ("MINITORCH2_FULLGRAPH", "1", "fullgraph", True),
     ("MINITORCH2_FULLGRAPH", "off", "fullgraph", False),
     ("MINITORCH2_DYNAMIC", "auto", "dynamic", None),
     ("MINITORCH2_DYNAMIC", "True", "dynamic", True),
     ("MINITORCH2_CACHE_DIR", "/x", "cache_dir", "/x")],
)  # fmt: skip
def test_environment(variable, text, name, value):
    assert getattr(config.from_environment({variable: text, "HOME": "/"}), name) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [("MINITORCH2_RECOMPILE_LIMIT", "many"), ("MINITORCH2_FULLGRAPH", "maybe"),
     ("MINITORCH2_FULLGRAPH", "auto")],
)  # fmt: skip
def test_environment_with_a_wrong_value_is_an_error(variable, text):
    with pytest.raises(ConfigError, match=variable):
        config.from_environment({variable: text})


def test_unknown_variable_is_logged(caplog):
    config.from_environment({"MINITORCH2_RECOMPILE_LIMITS": "1", "MINITORCH2_LOGS": "all"})
    assert [record.getMessage() for record in caplog.records] == [
        "environment variable MINITORCH2_RECOMPILE_LIMITS: "
        "there is no option 'recompile_limits'; did you mean 'recompile_limit'?"
    ]


def test_every_option_is_described():
    options = config.list_options()
    assert [option.name for option in options] == list(vars(config.Config()))
    assert all(option.meaning and option.type for option in options)
    assert {o.name: o.environment for o in options}["cache"] == "MINITORCH2_CACHE"
