"""Attention on more ranks than key-value heads: exercise FewHeads. The truth is one process."""

from coursekit.kit import Equals, RankExercise, World, never
from coursekit.kit.message_costs import SendLimit

from .cases import attend, make_case
from .truth import (
    bytes_of_sum,
    one_process,
    right_gradients,
    right_heads,
    wrong_gradients,
    wrong_heads,
)

EXERCISE = RankExercise(
    "FewHeads",
    lab="replicated_heads",
    needs=("all_reduce", "row_linear"),
    cases=[
        make_case(World(4), 8, 2),
        make_case(World(3), 6, 3),
        make_case(World(4), 4, 1),
        make_case(World(2), 6, 1),
    ],
    work=attend,
    facts=[
        Equals("has", right_heads, wrong_heads, "what it has"),
        never("changed", "a parameter has changed", "only gradients are added up"),
        Equals(
            "x",
            lambda trial, place: one_process(*trial.case.args)["x"],
            called="the gradient of x",
            otherwise="the sum is wrong on its way back: is forward as it was?",
        ),
        Equals("after", right_gradients, wrong_gradients, "the gradient"),
        SendLimit(
            bytes_of_sum,
            "the sum of the shared gradients sends",
            "more is sent than an all-reduce of the key's and the value's gradients, among the "
            "ranks that share them",
            "calls",
        ),
    ],
    right=lambda trial: (
        f"rank 0 has query heads {trial[0].has['query_heads']} and key-value head "
        f"{trial[0].has['head']}; all gradients are those of one process"
    ),
    errors={
        "out of bounds": "there is no head with this number: query heads count from 0 to heads - "
        "1, key-value heads from 0 to kv_heads - 1",
        "out of range": "there is no head with this number: query heads count from 0 to heads - 1, "
        "key-value heads from 0 to kv_heads - 1",
        "of type float": "the number of a head is whole: / gives a float, // does not",
        "'float' object cannot be": "the number of a head is whole: / gives a float, // does not",
        "NoneType": "self.output has a bias that is the same on all ranks, and its gradient is "
        "complete: only self.key_value is shared",
    },
    on_hang="every rank of self.sharers makes the same calls, in the same order",
    hints=(
        "Share out the query heads first: heads / n to each rank, in a row. Then ask of each "
        "query head which key-value head it uses.",
        "heads / kv_heads query heads in a row use the same key-value head. So n / kv_heads ranks "
        "in a row have the same one.",
        "In one process, a key gets gradients from all query heads that use it. Here these are on "
        "several ranks: those of self.sharers. Add up p.grad for each p of self.key_value.",
    ),
)
