"""A rank that dies under torchrun: the agent starts the job again, and losses are the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("restarted.py")
AGENT = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1", "--standalone")

# Without the variable, ranks meet at the agent's own store, in which a second attempt finds the
# address of the rank that died.
ENVIRONMENT = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def losses(folder, how):
    """Run the program under torchrun; return its lines: step, loss, and number of restarts."""
    folder.mkdir()
    command = [sys.executable, *AGENT, "--monitor-interval=0.1", SCRIPT, folder, how]
    environment = os.environ | ENVIRONMENT
    run = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return [line.split() for line in (folder / "losses").read_text().splitlines()]


@pytest.mark.slow
def test_a_job_that_is_started_again_goes_on_with_the_same_losses(tmp_path):
    """The agent starts both ranks again; they compile again and go on behind the checkpoint."""
    whole = losses(tmp_path / "whole", "lives")
    again = losses(tmp_path / "again", "dies")
    assert [line[:2] for line in again] == [line[:2] for line in whole]
    assert [line[2] for line in again] == ["0", "0", "1", "1"]
