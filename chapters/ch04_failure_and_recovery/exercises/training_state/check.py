"""All that a training run depends on, saved and restored."""

import torch

from coursekit.kit import RankCase, RankExercise, World, complains

from .cases import resume
from .truth import describe_trial, faults

EXERCISE = RankExercise(
    "Training",
    lab="checkpoints",
    cases=[
        RankCase(World(1), (3, 4, torch.float32), ", saved after 3 steps"),
        RankCase(World(2), (12, 12, torch.float32), ", saved after 12 steps, in the third epoch"),
        RankCase(World(3), (9, 4, torch.float64), ", saved after 9 steps, in float64"),
    ],
    work=resume,
    facts=[complains(faults)],
    right=describe_trial,
    warm=True,
    on_hang="each rank saves and loads its own state: nothing is sent",
    hints=(
        "Go through step() and next_batch(), line by line: what does this line read that an "
        "earlier step has changed?",
        "Four parts have a state_dict() of their own. Three numbers belong to the data and the "
        "count. What is left draws at random: dropout from one generator, shift_by from another.",
        "torch.get_rng_state() and random.getstate() give the states of the generators, "
        "torch.set_rng_state(…) and random.setstate(…) set them.",
    ),
)
