"""The exam: a training run to which all events happen, and each one alone if that fails."""

from coursekit.protocol import Exercise

from .chaos_plans import ALL, LAST, OTHERS
from .truth import PACE, SECONDS, outcome, try_case


def examine(answer):
    """Try all events in one run and, if that goes wrong, each one alone, which tells why."""
    undisturbed = try_case(answer, "undisturbed")
    yield from outcome(undisturbed)
    everything = try_case(answer, ALL, SECONDS + PACE * undisturbed.seconds)
    if everything.wrong:
        for what in OTHERS:
            yield from outcome(try_case(answer, what))
    yield from outcome(everything)
    for what in LAST:
        yield from outcome(try_case(answer, what))
    yield from everything.film()


EXERCISE = Exercise(
    "keep_going",
    examine,
    lab="chaos",
    needs=("who_is_there", "catch_up", "wrong_by_recomputing"),
    hints=(
        "train(training, crew, steps, step) of keep_training does the meetings, and calls "
        "catch_up. What has to be in your step, and what has to be done once, before it?",
        "Before: load_alone(folder), if there is a state. In a step: compute the sums of this rank "
        "and of the next one with wrong_by_recomputing; whoever is wrong ends its own process, all "
        "others raise Lost.",
        "Then all_reduce this rank's sums under talking(), together with somebody_waits(), as "
        "take_step does; update; and on rank 0 save_alone after every EVERY steps.",
        "With fewer than three ranks nobody can tell who is wrong. Do not take a step then: return "
        "True, so that the next meeting comes.",
    ),
)  # fmt: skip
