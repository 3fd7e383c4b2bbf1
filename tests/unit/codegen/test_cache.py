"""The cache on disk: explained misses, a cap, bundles, processes at once, damage, statistics."""

import io
import json
import subprocess
import sys
import zipfile

import pytest

import minitorch2
from minitorch2 import cache, config
from minitorch2.cache import storage
from minitorch2.cache.bundle import load_bundle, save_bundle
from minitorch2.errors import ConfigError
from minitorch2.explorer.cached import __main__ as command
from minitorch2.explorer.cached import report

KEY = cache.key_of("kernel", "fused_add_0", text="a + b", processor="znver4")
OTHER = cache.key_of("kernel", "fused_add_0", text="a + b", processor="skylake")


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "USED", {})
    monkeypatch.setattr(storage, "HELD", {})
    with config.patch(cache_dir=str(tmp_path / "cache"), cache=True):
        yield tmp_path / "cache"


def test_what_was_stored_is_loaded_and_counted():
    before = vars(cache.STATISTICS["kernel"]).copy()
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"
    with config.patch(cache=False):
        assert cache.load(KEY) is None
    after = vars(cache.STATISTICS["kernel"])
    changes = {name: after[name] - before[name] for name in after}
    assert changes == {"hits": 1, "misses": 1, "damaged": 0, "bypassed": 1}


def test_layers_and_fields_are_part_of_the_key_and_titles_are_not():
    keys = [KEY, OTHER, cache.key_of("library", text="a + b", processor="znver4")]
    assert len({key.digest for key in keys}) == 3
    assert cache.key_of("kernel", "other", **KEY.fields).digest == KEY.digest


def test_a_miss_names_the_field_that_differed():
    assert str(report.explain(KEY)) == "there was no entry of its kind"
    cache.store(OTHER, b"code")
    explanation = report.explain(KEY)
    assert explanation.differing == ("processor",)
    assert explanation.nearest.digest == OTHER.digest


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 200])
def test_damaged_entries_are_not_loaded_and_can_be_made_again(empty, damage):
    cache.store(KEY, b"code")
    (empty / "kernels" / KEY.digest).write_bytes(damage)
    assert cache.load(KEY) is None
    assert report.entries() == []
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"


def test_every_flipped_byte_is_noticed(empty):
    cache.store(KEY, b"code")
    path = empty / "kernels" / KEY.digest
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert cache.load(KEY) is None


def test_the_oldest_go_when_the_folder_is_full(empty):
    for number in range(4):
        cache.store(cache.key_of("kernel", number=str(number)), b"x" * 1000)
    young = cache.key_of("kernel", number="0")
    for age, path in enumerate((empty / "kernels").iterdir()):
        storage.os.utime(path, (age, age))
    cache.load(young)  # used again, so it stays
    size = storage.on_disk((empty / "kernels" / young.digest).stat().st_size)
    assert storage.shrink(2 * size) == 2
    assert cache.load(young) is not None


def test_storing_keeps_the_folder_below_its_cap(empty):
    with config.patch(cache_megabytes=1):
        for number in range(40):
            cache.store(cache.key_of("kernel", number=str(number)), b"x" * 100_000)
    held = sum(path.stat().st_size for path in (empty / "kernels").iterdir())
    assert held < 1.2 * 2**20


def test_texts_and_folders_inside_of_folders_count_as_well(empty):
    with config.patch(cache_megabytes=1):
        for number in range(400):
            place = ("graphs", f"{number}.py") if number % 2 else ("triton", str(number), "k.py")
            storage.write_file(empty.joinpath(*place), b"x" * 100)  # a block of the disk each
    found = list(storage.files())
    assert {path.relative_to(empty).parts[0] for path in found} == {"graphs", "triton"}
    assert 4096 * len(found) < 1.2 * 2**20 and (empty / "triton" / "398" / "k.py") in found
    assert storage.clear() == len(found)


def test_a_bundle_takes_entries_to_another_folder(tmp_path):
    cache.store(KEY, b"code")
    bundle = save_bundle()
    with config.patch(cache_dir=str(tmp_path / "elsewhere")):
        assert cache.load(KEY) is None
        assert load_bundle(bundle) == 1
        assert cache.load(KEY) == b"code"


def test_artifacts_of_a_process_are_bytes_that_another_one_loads(tmp_path):
    assert minitorch2.save_cache_artifacts() is None
    cache.store(KEY, b"code")
    bundle, info = minitorch2.save_cache_artifacts()
    assert (
        info.entries == {"kernel": ("fused_add_0",)} and str(info) == "entries: 1 of layer kernel"
    )
    with config.patch(cache_dir=str(tmp_path / "elsewhere")):
        assert minitorch2.load_cache_artifacts(bundle) == info
        assert cache.load(KEY) == b"code"
        with pytest.raises(ConfigError, match="no bundle"):
            minitorch2.load_cache_artifacts(b"nonsense")


def test_a_damaged_bundle_is_refused_as_a_whole(tmp_path):
    with pytest.raises(ConfigError, match="no bundle"):
        load_bundle(b"nonsense")
    cache.store(KEY, b"code")
    content = storage.read(KEY.digest)
    for name, planted in [
        ("../" + "a" * 61, content), (KEY.digest, content[:-1] + b"?"), (OTHER.digest, content)
    ]:  # fmt: skip
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(name, planted)
        with pytest.raises(ConfigError, match="damaged"):
            load_bundle(archive.getvalue())


def test_where_nothing_can_be_written_a_bundle_is_held_in_memory(tmp_path):
    cache.store(KEY, b"code")
    bundle = save_bundle()
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=str(tmp_path / "file")):
        load_bundle(bundle)
        assert cache.load(KEY) == b"code"


WRITER = """
import sys
from minitorch2 import config
from minitorch2 import cache
with config.patch(cache_dir=sys.argv[1]):
    for turn in range(60):
        key = cache.key_of("kernel", number=str(turn % 7))
        found = cache.load(key)
        assert found in (None, str(turn % 7).encode() * 50_000), "a torn entry"
        cache.store(key, str(turn % 7).encode() * 50_000)
"""


def test_processes_share_the_folder(empty):
    command_line = [sys.executable, "-c", WRITER, str(empty)]
    writers = [subprocess.Popen(command_line) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(report.entries()) == 7
    assert len(list((empty / "kernels").iterdir())) == 7  # no temporary file is left


def test_the_command(capsys, tmp_path):
    cache.store(KEY, b"code")
    cache.store(OTHER, b"code")
    file = str(tmp_path / "bundle")

    def said(*arguments):
        assert command.main(arguments) == 0
        return capsys.readouterr().out

    assert "2 entries" in said("info")
    assert "differs in processor" in said("explain")
    assert "processor = znver4" in said("explain", KEY.digest[:8])
    told = json.loads(said("explain", "--json"))
    assert [each["differing"] for each in told] == [["processor"]] * 2
    assert "bytes" in said("save", file)
    assert json.loads(said("save", "--json", file))["bytes"] > 0
    assert json.loads(said("clear", "--json")) == {"removed": 2}
    assert said("clear") == "removed 0 files\n"
    assert json.loads(said("load", "--json", file)) == {"entries": 2}
    assert said("load", file) == "took in 2 entries\n"
    assert command.main(["load", __file__]) == 1
    assert command.main(["explain", "missing"]) == 1
    assert "begins with 'missing'" in capsys.readouterr().err
