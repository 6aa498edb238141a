"""The right results for unflushed.py, and the results of known mistakes."""

from coursekit.kit import Equals, RankCase, World, never

from .unflushed import OWN_WEIGHTS
from .versions import SCRIPTS, input_of
from .versions_truth import both_ways, output_of, truth_of, weights_of

COPIES = (
    "a version that several micro-batches go through is there once: stash the dictionary itself, "
    "self.weights[version], and no copy"
)

STAGE_WAS_RIGHT = "one stage alone was right: what comes and goes between stages is Pipeline's"


def cases_with(*worlds):
    """Return cases: one stage's numbers, then what it leaves behind; pipelines of these sizes."""
    alone = [
        RankCase(World(1), (place, in_the_end), f", {place} stage, {SCRIPTS[place]}{what}")
        for in_the_end, what in [(False, ""), (True, ", in the end")]
        for place in SCRIPTS
    ]
    return alone + [RankCase(World(n), (), ", without a flush") for n in worlds]


def facts_with(mistakes, too_many):
    """Return the facts about a stage without a flush.

    mistakes  takes a place, and returns {misconception: its weights after each update}
    too_many  the diagnosis of more versions than are needed
    """

    def find_mistakes(trial, place):
        return mistakes(trial.case.args[0]) if trial.case.args else {}

    return [
        Equals(
            "weights",
            truth_of("weights"),
            find_mistakes,
            "after an update, the weights",
            why_others,
        ),
        Equals("slopes", truth_of("slopes"), no_slopes, "the gradient of x", why_others),
        Equals("outputs", truth_of("outputs"), wrong_outputs, "the output"),
        Equals("losses", truth_of("losses"), called="the losses", otherwise=STAGE_WAS_RIGHT),
        never(
            "taken_over",
            "a version is made of the tensors of the one before",
            "assigning `.data` gives a tensor other memory, and it stays the same tensor: who "
            "has stashed it sees the new weights. A version has its own tensors, and dictionary",
        ),
        never(
            "left",
            lambda names: f"after the last backward self.{names[0]} still has something",
            "the numbers are right, but what a micro-batch has stashed stays there after its "
            "backward, and with it a version of all weights, which no later backward needs",
        ),
        Equals(
            "delays",
            truth_of("delays"),
            called="self.delays",
            otherwise="each update makes a version: self.version counts them, and a delay is "
            "told by it",
        ),
        Equals(
            "most_versions",
            truth_of("most_versions"),
            called="self.most_versions",
            otherwise=too_many,
        ),
        never(
            "old",
            "tensors of {} old versions are still alive",
            "somebody still holds them: a version lives as long as a micro-batch needs it",
        ),
    ]


def names_found(case) -> tuple[str, ...]:
    """Return the names under which ranks find something in a case if all is right."""
    if not case.args:
        return "weights", "losses", "delays", "most_versions"
    in_the_end = case.args[1]
    return ("delays", "most_versions") if in_the_end else ("weights", "slopes", "outputs")


def why_others(trial) -> str:
    return "" if trial.case.args else STAGE_WAS_RIGHT


def no_slopes(trial, place):
    none = dict.fromkeys(trial[place].slopes)
    if trial[place].sources:
        return {
            "the gradient went on beyond x, into what others have computed: x.detach() begins a "
            "graph of this rank's own": none
        }
    return {
        "x is a constant for autograd here: the stage before needs its gradient, so x is a leaf "
        "that requires one": none
    }


def wrong_outputs(trial, place):
    stage = trial.case.args[0]
    weights = weights_of(stage)
    return {
        "this is what the piece gives; `then` comes after it: y = then(…)":
            {f: output_of(weights, input_of(stage, int(f[1:]))) for f in trial[place].outputs},
        OWN_WEIGHTS:
            {f: both_ways(stage, weights, int(f[1:]))[0] for f in trial[place].outputs},
    }  # fmt: skip


def report_delays(trial) -> str:
    versions = trial.collect_values("most_versions")
    if versions is None:
        return f"right after {len(trial[0].weights)} updates"
    delays = ", ".join(str(max(of.delays)) for of in trial)
    return f"delays up to {delays}; versions at a time, at most {', '.join(map(str, versions))}"
