"""A training loop that resumes behind the samples that it has trained on."""

from coursekit.kit import RankCase, RankExercise, World, complains

from .cases import live_on
from .truth import faults

FINDS_A_BUG = True

NO_KEY = "a sample need not say where it is in `order`, since it may be an image: count the samples"

EXERCISE = RankExercise(
    "train_until_told",
    cases=[
        RankCase(World(1), (80, 0, (3, 5, 100)), ", 80 samples, told after 3 batches, and after 5"),
        RankCase(World(1), (30, 5, (4, 100)), ", 30 samples, position 5, told after 4 batches"),
        RankCase(World(1), (22, 0, (6, 100)), ", 22 samples, told after the last batch"),
    ],
    work=live_on,
    facts=[complains(faults)],
    timeout=15,  # each life starts workers
    right=lambda trial: f"each sample once, in {len(trial[0].lives)} lives",
    errors={
        "object has no attribute 'position'": "ask the sampler that draws, which has a position",
        "local variable": "all samples of `order` may have been used: then no batch comes, and the "
        "position is the one that was given",
        "be converted to": NO_KEY,
        "is not in list": NO_KEY,
    },
    hints=(
        "Print sampler.position and the number of samples trained on after each batch. By how much "
        "do they differ?",
        "The sampler counts what the workers have been asked for. Two workers, each two batches "
        "ahead: four batches have not been trained on yet.",
        "Count what comes out of the loader: len(batch) samples for each batch, after `train`.",
    ),
)
