"""Ranks that part or die: an error that names them, and a cache and checkpoints that are whole."""

import re
from pathlib import Path

import pytest
import torch

import minitorch2
from minitorch2.cache import storage
from minitorch2.distributed import RanksDifferError, same_on_all_ranks
from minitorch2.distributed.journal import first_difference
from tests.distributed.processes import Job

HERE = "tests.distributed.parting"


def test_ranks_that_compile_the_same_agree(job):
    assert job.run("same", module=HERE) == ["", ""]


def test_a_graph_break_on_one_rank_names_both_ranks_and_the_line(job):
    for text in job.run("breaks_on_one_rank", module=HERE):
        assert "ranks have compiled different programs" in text and "[ranks-differ]" in text
        first, second = text.splitlines()[1:3]
        assert re.search(r"rank 0 compiled, from event 0 on: a graph \(\w+\)$", first)
        assert re.search(r"rank 1 compiled, .* a graph break at File: .*parting.py:\d+, ", second)


def test_a_rank_that_waits_alone_is_named_with_its_line(job):
    texts = job.run("hangs_on_one_rank", module=HERE)
    assert re.search(r"rank 0 is at .*parting.py:\d+, code: dist.all_reduce", texts[1])
    assert "Timed out" in texts[0] and "rank 1 is at the end of the block" in texts[0]


def test_journals_of_other_lengths_differ_where_one_ends():
    assert first_difference([["a", "b"], ["a"]]) == 1
    assert first_difference([["a"], ["a"]]) is None


def test_a_missing_process_group_is_an_error():
    with pytest.raises(RanksDifferError, match="no process group"), same_on_all_ranks():
        pass


def test_checkpoints_go_from_compiled_models_to_others_and_back(job, tmp_path):
    for results in job.run("saved_and_loaded", str(tmp_path), module=HERE):
        for loaded, saved, outputs_are_equal in results:
            torch.testing.assert_close(loaded, saved, rtol=0, atol=0)
            assert outputs_are_equal


def test_one_rank_compiles_and_the_other_loads(job, tmp_path):
    one, other = job.run("first_step", str(tmp_path), True, module=HERE)
    assert one[1] > 0 and other[1] == 0


def test_a_rank_killed_while_it_compiles_leaves_a_cache_that_is_whole(tmp_path):
    """The entry that it was writing is not there; the others are read, and the rest is made."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    job = Job()
    with pytest.raises(AssertionError, match="rank 1: the process has ended"):
        job.run("killed_while_compiling", str(folder), module=HERE)
    job.close()
    with minitorch2.config.patch(cache_dir=str(folder)):
        entries = [path for path in (folder / storage.ENTRIES).iterdir() if len(path.name) == 64]
        assert entries
        for path in entries:
            assert storage.parse(path.name, Path(path).read_bytes()) is not None
