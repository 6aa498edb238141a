"""Pipelines under autocast: whose gradients are those of one process."""

import pytest
from helpers import load_solved_lab

from pedagogy_lib import launch

AUTOCAST = load_solved_lab("pipelines_autocast")


@pytest.mark.parametrize("way", ["the course's, dtype=torch.bfloat16", "PyTorch's"])
def test_a_message_of_autocasts_dtype_gives_the_gradients_of_one_process(way):
    errors = launch(AUTOCAST.step_of, *AUTOCAST.WAYS[way], world_size=2, device="cpu").values
    assert max(errors) < 1e-6


def test_a_dtype_that_changes_is_never_taken_for_right():
    said = {way: AUTOCAST.outcome_of(way) for way in AUTOCAST.WAYS}
    assert said["the course's"].startswith("refused: F0 has computed torch.bfloat16")
    for way in ("after a step in float32", "in float32, after a step under autocast"):
        (name,) = (name for name in said if name.endswith(way))
        assert said[name] != "the gradients of one process"
