"""An embedding whose tokens are split over ranks. The truth is F.embedding."""

import torch
import torch.nn.functional as F

from coursekit.kit import GROUP, Equals, Holds, RankCase, RankExercise, World, never
from coursekit.kit.message_costs import SendLimit
from coursekit.kit.results import VIEW

from .cases import ALL, TABLE, embed
from .truth import ALL_LEAVE, TRUTHS, gradient, rows, why_not_once, wrong_gradients, wrong_rows

EXERCISE = RankExercise(
    "VocabularyEmbedding",
    lab="tensor_parallel",
    needs=("cut",),
    cases=[
        RankCase(World(3), (ALL,), ", all tokens, some twice"),
        RankCase(World(2), (torch.tensor([8, 9, 9]),), ", tokens of the last rank alone"),
        RankCase(World(3), (torch.tensor([[[0]]]),), ", a single token"),
        RankCase(GROUP, (ALL,)),
    ],
    work=embed,
    facts=[
        Holds("times", lambda times: times == 1,
              "it has called self.leave {} times, expected once", why_not_once),
        Equals("shape", lambda trial, place: (*trial.case.args[0].shape, 3),
               called="the shape of what self.leave gets",
               otherwise="give it the rows in their final shape. It may bring back less than the "
               "whole: what comes after it cannot know"),
        Equals("rows", rows, wrong_rows, "what it adds for"),
        Equals("y", lambda trial, place: F.embedding(trial.case.args[0], TABLE),
               called="the output",
               otherwise="what leave returns is the output: nothing is left to do with it"),
        Equals("gradient", gradient, wrong_gradients, "the gradient of weight"),
        never("changed", "the tokens have changed",
              "the caller still needs them as they were: tokens - first is a new tensor, -= is "
              "not"),
        SendLimit(lambda trial: 0, "besides self.leave it needs",
                "self.leave is the only message, and the backward needs none"),
    ],
    right="rows and gradients are F.embedding's, 1 all-reduce",
    errors={
        "out of range": "only this rank's rows are here: the token `first` is in row 0, and the "
        "tokens of other ranks are in none. Look up any row for those, and put zeros in its place",
        "is out of bounds": "only this rank's rows are here: counted from `first`, tokens of "
        "other ranks are negative, or too large. A negative index counts from the end, and a "
        "lookup that does not fail is as wrong. Look up any row for those, and put zeros in its "
        "place",
        "view size is not compatible": VIEW,
        "must match the size": TRUTHS,
        "does not match the shape": TRUTHS,
    },
    on_hang=ALL_LEAVE,
    hints=(
        "This rank has the rows of the tokens from self.first on, as many as len(self.weight) "
        "says. What should it add to the sum for a token that it has not?",
        "place = tokens - self.first is the row, if this rank has it. mine = (place >= 0) & "
        "(place < len(self.weight)) tells where that is so.",
        "Look up what is always there, such as row place.where(mine, 0). What was found for "
        "other ranks' tokens has to become zeros: rows.where(mine.unsqueeze(-1), 0), which "
        "autograd knows of. Then self.leave adds up, once.",
    ),
)  # fmt: skip
