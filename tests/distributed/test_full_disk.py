"""A cache folder on a full disk: nothing is half written, and the program computes."""

import errno
import io
import os

import torch

import minitorch2
from minitorch2 import stages
from minitorch2.cache import storage


class Full(io.FileIO):
    """A file that takes the first bytes of what is written, and has no room for more."""

    tried = 0

    def write(self, data):
        Full.tried += 1
        super().write(data[:7])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def compiled(folder, activation):
    """Compile a model in a cache folder; return whether it computes, and its counts."""
    minitorch2.reset()
    with minitorch2.config.patch(cache_dir=str(folder)), stages.collect() as log:
        net = torch.nn.Sequential(torch.nn.Linear(6, 18), activation)
        x = torch.randn(3, 6)
        is_right = torch.allclose(minitorch2.compile(net)(x), net(x), atol=1e-5)
    return is_right, log.counts


def test_a_full_disk_costs_the_cache_and_nothing_else(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    with monkeypatch.context() as patched:
        patched.setattr(storage.os, "fdopen", Full)
        assert compiled(folder, torch.nn.Mish())[0] and Full.tried > 0
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if path.stat().st_size == 7] == []
    assert [path for path in (folder / storage.ENTRIES).glob("*") if path.is_file()] == []
    is_right, counts = compiled(folder, torch.nn.Softplus())  # there is room again
    assert is_right and [*(folder / storage.ENTRIES).iterdir()], counts
