"""torchft keeps a training going: one replica is killed, and a new one takes its place."""

import needs
import pytest
from helpers import load_solved_lab

ENGINE = load_solved_lab("torchft_engine")


@pytest.mark.deep
@needs.mark("torchft")
@pytest.mark.parametrize("guilty", [0, 2])
def test_all_replicas_end_with_one_process_weights(guilty):
    told = ENGINE.try_torchft(None, guilty=guilty, die_at=10, steps=60)
    assert told[0].startswith(f"rank {guilty} was killed by SIGKILL")
    for rank, line in enumerate(told[1:]):
        assert line.startswith(f"rank {rank}: 60 steps")
        assert float(line.rsplit(" by ", 1)[1]) < 1e-12
