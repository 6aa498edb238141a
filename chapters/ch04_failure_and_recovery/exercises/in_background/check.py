"""Saving in a thread: a copy of the state, one save after another, errors that are raised."""

import operator

from coursekit.kit import Equals, RankExercise
from coursekit.kit.single_rank import Alone, run_alone

from .cases import a_copy, an_error, check_copy_time, check_idle_wait, meanwhile, one_by_one
from .truth import list_found, states_wanted

EXERCISE = RankExercise(
    "InBackground",
    lab="checkpoints",
    cases=[
        Alone("while it is saved, the training goes on", meanwhile),
        Alone("who copies", check_copy_time),
        Alone("the state changes meanwhile", a_copy),
        Alone("three savings", one_by_one),
        Alone("nothing to wait for", check_idle_wait),
        Alone("a saving that fails", an_error),
    ],
    work=run_alone,
    facts=[
        Equals("saved", states_wanted, called="what was saved"),
        Equals("waited", lambda trial, place: "saved 1", called="what wait() returned",
               same=operator.eq),
    ],
    found=list_found,
    right=lambda trial: trial[0].told,
    errors={
        "'NoneType' object has no attribute 'result'": "nothing has been begun, or its end has "
        "been waited for: self.running is None then",
    },
    on_hang="does begin() wait for a saving that has not been begun?",
    hints=(
        "self.thread.submit(function, argument) begins, and returns a future; future.result() "
        "waits for its end, returns what the function did, and raises what it raised.",
        "begin: wait for the one before; copy the state, here; submit self.save with the copy, and "
        "keep the future in self.running.",
        "wait: take the future out of self.running, put None there, and then ask for its result.",
    ),
)  # fmt: skip
