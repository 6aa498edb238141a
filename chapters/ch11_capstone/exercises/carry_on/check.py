"""Training of a model in parts that goes on when ranks die, under the recipe for the rest."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.labs import find_lab
from coursekit.protocol import Exercise

from .campaigns import KILLS, losses_alone, run_campaign
from .truth import Case


def examine(answer):
    alone = losses_alone(find_lab("capstone_chaos"))
    for name in KILLS:
        case = Case(name, call_next_to_answer(run_campaign, answer, name))
        case.look(alone)
        yield case.describe_success()


EXERCISE = Exercise(
    "carry_on",
    examine,
    lab="capstone_chaos",
    needs=("who_is_there",),
    hints=(
        "train(campaign, crew, steps, step, begin) of keep_training does the meetings. It calls "
        "begin(campaign) after each of them, and step(campaign, crew) for each step. What does a "
        "step need that a meeting has made useless?",
        "begin: look up the recipe for dist.get_world_size() ranks. Is there one? Build it, and "
        "load. Is there none? Drop the engine: it still talks in the old groups.",
        "step: without an engine, wait a moment, and return True: a meeting comes next. With one: "
        "take the step under talking(), and ask is_true_for_any() whether somebody waits.",
        "Before it returns, and still under talking(): save, if EVERY divides campaign.steps, or "
        "if somebody waits. Return whether somebody waits.",
    ),
)  # fmt: skip
