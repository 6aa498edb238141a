"""A parameter server that takes gradients as they arrive."""

from coursekit.kit import Equals, Holds, RankExercise
from coursekit.kit.results import NO_RETURN

from .truth import (
    describe_ages,
    newest_weights,
    pushes_make_steps,
    staleness_of,
    whole_messages,
    why_it_hangs,
    why_other_ages,
    wrong_staleness,
)
from .workers_in_turn import SERVER, Plan, serve_or_work
from .workers_in_turn_truth import compute_known, versions_of

EXERCISE = RankExercise(
    "serve_as_they_come",
    lab="parameter_server",
    cases=[
        Plan(2, 5, (1, 1, 2, 1, 1, 2)),
        Plan(1, 3, (1, 1, 1)),
        Plan(3, 6, (3, 1, 1, 3, 2, 1, 3, 2)),
        Plan(3, 12),
    ],
    work=serve_or_work,
    known=compute_known,
    facts=[
        pushes_make_steps,
        newest_weights,
        whole_messages,
        Holds("staleness", lambda ages: ages is not None, "it returned None", NO_RETURN),
        Holds("staleness", lambda ages: isinstance(ages, list), "it returned {}",
              "what is asked for is a list: the staleness of each gradient, in their order."),
        Holds("staleness", lambda ages: all(isinstance(age, int) for age in ages),
              "it returned {}", "staleness is a number of updates: a whole number."),
        Equals("staleness", staleness_of, wrong_staleness, otherwise=why_other_ages,
               tells=lambda trial, place: f"the staleness is {trial[SERVER].staleness}, expected "
               f"{staleness_of(trial, SERVER)}"),
        Equals("last", lambda trial, place: None if place else versions_of(trial)[-1],
               called="in the end, the weight",
               otherwise="only optimizer.step() may move them: once along each gradient."),
    ],
    right=describe_ages,
    errors={
        "told to go on": "ask is_over(…) after each update, with the number of updates so far, and "
        "send order_of(model, False) to whoever pushes when it is over.",
        "EnforceNotMet": "the two sides of a message differ in length. What a worker receives is "
        "what order_of(model, going_on) makes; what it pushes is one gradient.",
    },
    explain=why_it_hangs,
    warm=True,
    hints=(
        "serve_together, above, has all the pieces. What changes is who is received from, and "
        "when an answer goes out: after each single push, to the one that pushed.",
        "worker = dist.recv(gradient) receives from anybody, and says who it was. For each "
        "worker that computes, keep the number of updates that its weights had when they were "
        "sent: a dictionary.",
        "Start: order_of(model, True) to each worker, with version 0. Then, as long as one "
        "computes: receive; staleness is updates so far minus its version; step; answer.",
        "Ask is_over after the step. If it is over, the answer is order_of(model, False), and "
        "this worker leaves the dictionary; the loop ends when the dictionary is empty.",
    ),
)  # fmt: skip
