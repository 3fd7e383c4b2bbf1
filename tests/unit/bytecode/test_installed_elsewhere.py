"""Libraries that are imported through a symbolic link are known as libraries all the same."""

import subprocess
import sys
from pathlib import Path

import torch

import minitorch2

PROGRAM = """
import numpy, os, torch, minitorch2
from minitorch2.bytecode.frames.skip_files import is_skipped_file, refuses_inlining

for module in (numpy, os, torch, torch.library, minitorch2):
    assert is_skipped_file(module.__file__), module.__file__
assert refuses_inlining(torch.library.Library.impl.__code__)
assert not refuses_inlining(torch.nn.functional.relu6.__code__)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU6())
x = torch.randn(2, 4)
explained = minitorch2.explain(model)(x)
assert explained.graph_count == 1 and not explained.breaks, explained
print("whole")
"""


def test_libraries_behind_a_symbolic_link_are_not_taken_for_the_users_code(tmp_path):
    for name, module in (("site", torch), ("source", minitorch2)):
        (tmp_path / name).symlink_to(Path(module.__file__).parents[1])
    paths = [str(tmp_path / "source"), str(tmp_path / "site")]
    program = f"import sys; sys.path[:0] = {paths!r}\n{PROGRAM}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "whole", found.stderr
