"""A training loop that resumes behind the samples that it has trained on."""

from coursekit.kit import RankCase, RankExercise, World, complains

from .cases import live_on
from .truth import faults

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "train_until_told",
    cases=[
        RankCase(World(1), (80, (3, 5, 100)), ", 80 samples, told after 3 batches, and after 5"),
        RankCase(World(1), (30, (6, 100)), ", 30 samples, told after 6 batches"),
        RankCase(World(1), (22, (100,)), ", 22 samples, not told"),
    ],
    work=live_on,
    facts=[complains(faults)],
    timeout=30,  # each life starts workers
    right=lambda trial: f"each sample once, in {len(trial[0].lives)} lives",
    errors={
        "object has no attribute 'position'": "ask the sampler that draws, which has a position",
    },
    hints=(
        "Print sampler.position and the number of samples trained on after each batch. By how much "
        "do they differ?",
        "The sampler counts what the workers have been asked for. Two workers, each two batches "
        "ahead: four batches have not been trained on yet.",
        "Count what comes out of the loader: len(batch) samples for each batch, after `train`.",
    ),
)
