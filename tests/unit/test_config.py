"""Options: typed, patched per thread, readable from the environment."""

import os
import subprocess
import sys
import threading

import pytest

import minitorch2
from minitorch2 import config
from minitorch2.errors import ConfigError, MinitorchWarning


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


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [("MINITORCH2_RECOMPILE_LIMITS", "MINITORCH2_RECOMPILE_LIMIT"),
     ("MINITORCH2_CACHEDIR", "MINITORCH2_CACHE_DIR"), ("MINITORCH2_LOG", "MINITORCH2_LOGS")],
)  # fmt: skip
def test_a_misspelt_variable_is_warned_of(variable, nearest):
    with pytest.warns(MinitorchWarning, match=f"did you mean '{nearest}'") as caught:
        config.from_environment({variable: "1", "MINITORCH2_LOGS": "all", "HOME": "/"})
    assert len(caught) == 1 and variable in str(caught[0].message)


def test_a_misspelt_variable_is_seen_on_standard_error():
    code = "import minitorch2\nminitorch2.config"
    environment = os.environ | {"MINITORCH2_RECOMPIL_LIMIT": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and "did you mean 'MINITORCH2_RECOMPILE_LIMIT'" in done.stderr


RANGES = {o.name: o.range for o in config.list_options() if isinstance(o.range, config.Range)}


def test_every_number_has_a_range_with_its_default():
    numbers = [o.name for o in config.list_options() if type(o.default) in (int, float)]
    assert numbers == list(RANGES)
    assert all(getattr(config.Config(), name) in limits for name, limits in RANGES.items())


@pytest.mark.parametrize("name", RANGES)
def test_a_number_out_of_its_range_is_refused(name):
    limits = RANGES[name]
    inside = [limits.least] if limits.most is None else [limits.least, limits.most]
    outside = [limits.least - 1] if limits.most is None else [limits.least - 1, limits.most + 1]
    for value in inside:
        with config.patch(**{name: value}):
            assert getattr(config.current(), name) == value
    for value in outside:
        with pytest.raises(ConfigError, match=f"option {name} takes .*{limits}") as caught:
            config.patch(**{name: value})
        assert caught.value.code == "option-range"
        assert repr(value) in caught.value.cause and "default" in caught.value.fix
        with pytest.raises(ConfigError, match=f"MINITORCH2_{name.upper()}.*{limits}"):
            config.from_environment({f"MINITORCH2_{name.upper()}": str(value)})


def test_a_word_that_is_no_choice_is_refused():
    text = "one of 'minitorch2', 'numba', 'python', not 'gcc'"
    with pytest.raises(ConfigError, match=text) as caught:
        config.patch(cpu_compiler="gcc")
    assert caught.value.code == "option-range"
    with pytest.raises(ConfigError, match=text):
        config.from_environment({"MINITORCH2_CPU_COMPILER": "gcc"})
    assert config.from_environment({"MINITORCH2_CPU_COMPILER": "numba"}).cpu_compiler == "numba"


def test_not_a_number_is_out_of_every_range():
    with pytest.raises(ConfigError, match="nan"):
        config.patch(memory_budget=float("nan"))


@pytest.mark.parametrize(
    ("name", "words"),
    [("recompile_limit", "no attributes"), ("recompil_limit", "did you mean 'recompile_limit'"),
     ("no_such_thing", "there is no option")],
)  # fmt: skip
def test_to_assign_an_option_to_the_module_is_an_error(name, words):
    with pytest.raises(ConfigError, match=words) as caught:
        setattr(minitorch2.config, name, 1)
    assert caught.value.code == "option-assigned" and "config.patch" in caught.value.fix
    assert not hasattr(config, name)


def test_what_the_module_has_may_be_replaced(monkeypatch):
    monkeypatch.setattr(config, "PREFIX", "OTHER_")
    monkeypatch.setattr(config, "_anything", 1, raising=False)
    assert (config.PREFIX, config._anything) == ("OTHER_", 1)


def test_every_option_is_described():
    options = config.list_options()
    assert [option.name for option in options] == list(vars(config.Config()))
    assert all(option.meaning and option.type for option in options)
    assert {o.name: o.environment for o in options}["cache"] == "MINITORCH2_CACHE"
