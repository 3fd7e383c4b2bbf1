"""Nothing that another user can have put into the cache is read, and so nothing of it runs."""

from __future__ import annotations

import gc
import linecache
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2 import cache, config, stages
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.cache import storage, trust
from minitorch2.codegen.program import load_program
from minitorch2.errors import MinitorchWarning, cautions
from minitorch2.explorer.cached import report

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no modes")
KEY = cache.key_of("kernel", "fused_add_0", text="a + b")
OTHER = cache.key_of("kernel", "fused_mul_0", text="a * b")
ANOTHER = 4242
"""A user who does not exist here."""


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, as a new process would find it."""
    monkeypatch.setattr(storage, "USED", {})
    monkeypatch.setattr(storage, "HELD", {})
    cautions.caution_once.cache_clear()
    with config.patch(cache_dir=str(tmp_path / "cache"), cache=True):
        yield tmp_path / "cache"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# How folders are made


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077, 0o777])
def test_every_level_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with config.patch(cache_dir=str(tmp_path / "a" / "b" / "cache")):
            cache.store(KEY, b"code")
            assert cache.load(KEY) == b"code"
            load_program("def call(args): return args")
            files = list(storage.files())
    finally:
        os.umask(before)
    folders = [tmp_path / "a", tmp_path / "a/b", *(tmp_path / "a/b/cache").rglob("*/")]
    assert {mode(path) for path in folders if path.is_dir()} == {0o700}
    assert len(files) == 2 and {mode(path) for path in files} == {0o600}


# Folders that are refused


def by_mode(folder: Path) -> None:
    folder.chmod(0o777)


def by_mode_although_sticky(folder: Path) -> None:
    folder.chmod(0o1777)  # others cannot remove what is there, but add to it


def by_mode_of_the_entries(folder: Path) -> None:
    (folder / storage.ENTRIES).chmod(0o757)


def by_its_parent(folder: Path) -> None:
    folder.parent.chmod(0o777)


def by_its_owner(folder: Path) -> None:
    os.chown(folder, ANOTHER, -1)


def by_its_parents_owner(folder: Path) -> None:
    os.chown(folder.parent, ANOTHER, -1)


def by_a_group(folder: Path) -> None:
    os.chown(folder, -1, ANOTHER)
    folder.chmod(0o770)


def by_a_link(folder: Path) -> None:
    """Another user's link in the place of the folder, to one of this user's own."""
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    os.chown(folder, ANOTHER, -1, follow_symlinks=False)


def by_a_link_to_an_open_folder(folder: Path) -> None:
    (folder.parent / "open").mkdir()
    folder.rename(folder.parent / "open" / "cache")
    folder.symlink_to(folder.parent / "open" / "cache")
    (folder.parent / "open").chmod(0o777)


WAYS: list[Callable[[Path], None]] = [
    by_mode, by_mode_although_sticky, by_mode_of_the_entries, by_its_parent, by_its_owner,
    by_its_parents_owner, by_a_group, by_a_link, by_a_link_to_an_open_folder,
]  # fmt: skip
OWNERS = {by_its_owner, by_its_parents_owner, by_a_group, by_a_link}


@pytest.mark.parametrize("way", WAYS)
def test_an_unsafe_folder_is_neither_read_nor_written(
    empty: Path, tmp_path: Path, way: Callable[[Path], None]
) -> None:
    if way in OWNERS and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    cache.store(KEY, b"planted")
    way(empty)
    try:
        with pytest.warns(MinitorchWarning, match="is not used") as caught:
            assert cache.load(KEY) is None
            assert storage.read(KEY.digest) is None and report.entries() == []
            cache.store(OTHER, b"code")
        assert len(caught) == 1, "it is said once"
        assert cache.load(OTHER) == b"code", "it is held in memory"
        assert not (empty / storage.ENTRIES / OTHER.digest).exists()
        if way is not by_mode_of_the_entries:
            assert storage.write_file(empty / "graphs" / "x.py", b"") is False
            assert "not used: " in "\n".join(report.info())
    finally:
        tmp_path.chmod(0o700)


def test_a_link_of_ones_own_and_a_sticky_parent_are_safe(empty: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "disk").mkdir(mode=0o700)
    empty.symlink_to(tmp_path / "disk")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store(KEY, b"code")
        assert cache.load(KEY) == b"code"
    assert (tmp_path / "disk" / storage.ENTRIES / KEY.digest).exists()


def test_links_without_end_are_unsafe_and_what_is_missing_is_not(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to(tmp_path / "round")
    assert "links" in str(trust.why_unsafe(tmp_path / "round"))
    (tmp_path / "file").write_text("")
    for name in ("missing", "file/cache"):
        assert trust.why_unsafe(tmp_path / name) is None
        with config.patch(cache_dir=str(tmp_path / name / "cache")):
            assert cache.load(KEY) is None


def test_a_folder_of_the_users_own_group_is_safe(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store(KEY, b"code")
    empty.chmod(0o770)
    monkeypatch.setattr(trust, "_is_own_group", lambda group: True)
    assert trust.why_unsafe(empty) is None
    monkeypatch.setattr(trust, "_is_own_group", lambda group: False)
    assert trust.why_unsafe(empty) is not None


# Entries that are refused


def path() -> Path:
    return storage.path_of(KEY.digest)


def under_another_key(empty: Path) -> None:
    path().rename(storage.path_of(OTHER.digest))
    cache.store(KEY, b"another")
    os.replace(path(), storage.path_of(OTHER.digest))


def truncated(empty: Path) -> None:
    path().rename(storage.path_of(OTHER.digest))
    os.truncate(storage.path_of(OTHER.digest), 40)


def a_link(empty: Path) -> None:
    path().rename(empty / "planted")
    storage.path_of(OTHER.digest).symlink_to(empty / "planted")


def a_file_of_another_user(empty: Path) -> None:
    cache.store(OTHER, b"planted")
    os.chown(storage.path_of(OTHER.digest), ANOTHER, -1)


def a_file_that_others_can_write(empty: Path) -> None:
    cache.store(OTHER, b"planted")
    storage.path_of(OTHER.digest).chmod(0o666)


def a_folder(empty: Path) -> None:
    storage.path_of(OTHER.digest).mkdir()


@pytest.mark.parametrize(
    "plant",
    [under_another_key, truncated, a_link, a_file_of_another_user, a_file_that_others_can_write,
     a_folder],
)  # fmt: skip
def test_a_planted_entry_is_not_used(empty: Path, plant: Callable[[Path], None]) -> None:
    if plant is a_file_of_another_user and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    cache.store(KEY, b"code")
    plant(empty)
    assert cache.load(OTHER) is None
    cache.store(OTHER, b"made again")
    assert cache.load(OTHER) == b"made again"


@pytest.mark.parametrize("open_to_others", [True, False])
def test_a_planted_program_never_runs(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_to_others: bool
) -> None:
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())
    x = torch.ones(3)

    def run() -> dict[str, int]:
        """As a new process would."""
        minitorch2.reset()
        gc.collect()
        lookup._PROGRAMS.clear()
        function = minitorch2.compile(lambda x: x.sin() + 1, backend="numba", fullgraph=True)
        with config.patch(verify=False), stages.collect(texts=False) as log:
            torch.testing.assert_close(function(x), x.sin() + 1)
        return log.counts

    assert run()["graphs_compiled"] == 1 and run()["graphs_loaded"] == 1
    evil = f"open({str(tmp_path / 'ran')!r}, 'w')\nplan = 1/0".encode()
    (graph,) = [found.digest for found in report.entries() if found.entry.layer == "graph"]
    header = {"layer": "graph", "title": "", "fields": {}}
    planted = storage.compose(graph if open_to_others else KEY.digest, header, evil)
    storage.path_of(graph).write_bytes(planted)
    if open_to_others:
        empty.chmod(0o777)
        with pytest.warns(MinitorchWarning, match="is not used: other users can write"):
            assert run()["graphs_compiled"] == 1
    else:
        assert run()["graphs_compiled"] == 1 and run()["graphs_loaded"] == 1
    assert not (tmp_path / "ran").exists()


# What is kept for debuggers


def test_the_lines_of_a_graph_die_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def call(args):\n    return args"
    one, two = load_program(text), load_program(text)
    file = one.__code__.co_filename
    assert linecache.getline(file, 2).strip() == "return args"
    del one
    gc.collect()
    assert file in linecache.cache
    del two
    gc.collect()
    assert file not in linecache.cache


def test_the_lines_of_a_compiled_function_die_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bypass, "EXTENSIONS", list[str]())

    def kept() -> set[str]:
        gc.collect()
        return {name for name in linecache.cache if "minitorch2 " in name or "/graphs/" in name}

    before = kept()
    with stages.collect() as log:
        function = minitorch2.compile(lambda x: x.sin() * 2, backend="numba", fullgraph=True)
        function(torch.ones(3))
    assert log.counts["graphs"] == 1 and kept() - before
    del function, log
    minitorch2.reset()
    lookup._PROGRAMS.clear()
    assert kept() == before
