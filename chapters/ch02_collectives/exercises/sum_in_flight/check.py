"""Sums that share a buffer while they are under way."""

import torch

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World, never

from .cases import LARGE, add_up
from .truth import all_in_flight, given, mistakes, mistakes_of_given, most_bytes, sums

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "sum_in_flight",
    cases=[
        RankCase(World(2), ([(3,), (3,), (3,)], torch.float64), ", 3 tensors of 3 numbers"),
        RankCase(World(3), ([(2,), (1, 3), (4,)], torch.float64), ", tensors of other shapes"),
        RankCase(World(2), ([(5,)], torch.int64), ", one tensor"),
        RankCase(World(2), ([], torch.float64), ", an empty list"),
        RankCase(World(2), ([(3,), (3,)], torch.float64, True), ", one tensor twice in the list"),
        RankCase(World(2), ([(2,), (0,), (3,)], torch.float64), ", one tensor without numbers"),
        RankCase(GROUP, ([(2,), (2,)], torch.float64), ", 2 tensors"),
        RankCase(World(2), (LARGE, torch.float64), ", 2 large tensors"),
    ],
    work=add_up,
    facts=[
        Equals("sums", sums, mistakes, "the list"),
        Equals("tensors", given, mistakes_of_given, "what it was given"),
        never("is_shared", "a sum lies in the memory of a tensor that was given",
              "the result consists of new tensors"),
        never("has_other_tensors", "the list that was given holds other tensors now",
              "it belongs to the caller: make a list of your own"),
        all_in_flight,
        Sends(most_bytes, "one all-reduce of each tensor is",
              {"": "each tensor is added up once, in its own dtype"}),
    ],
    right=lambda trial: "nothing to add up" if not trial.case.args[0]
    else "all sums are right, and were under way at the same time",
    errors={
        "list index out of range": "the list may be empty: then there is no tensors[0], and the "
        "result is an empty list",
        "local variable 'work'": "the list may be empty: then no sum has begun, and there is no "
        "Work",
        "'work' where it is not associated": "the list may be empty: then no sum has begun, and "
        "there is no Work",
        "must match the size": "the tensors may differ in shape: a buffer that has the shape of "
        "one of them does not fit the others",
        "output with shape": "the tensors may differ in shape: a buffer that has the shape of "
        "one of them does not fit the others",
        "'NoneType' object has no attribute 'wait'": "without async_op=True a collective waits "
        "and returns None: there is no Work to wait for",
    },
    hints=(
        "Which tensor does the second sum write into, and what is still under way in it?",
        "A tensor that is under way belongs to its call, so that each sum needs its own. And how "
        "many Works does the function wait for?",
        "Make a copy of each tensor, begin a sum in each copy, keep all Works in a list, wait for "
        "each of them, and return the copies.",
    ),
)  # fmt: skip
