"""Neighbours swap their tensors."""

import torch

from ...basics.units import brief
from ...measuring.wire_bytes import kernel_counts
from ..kit.costs import megabytes, messages, near, need_cost
from ..kit.refused import Refused
from ..kit.trials import LARGE, Case, Collective, same
from .misconceptions import hang_between_neighbours
from .tasks import OneTensor


class Swap(OneTensor):
    """In a cell, and it returns its result."""

    def inputs(self, place, case):
        x = super().inputs(place, case)[0]
        return [x, torch.zeros_like(x)]

    def call(self, answer, tensors, case, group):
        returned = answer(tensors[0])
        if not isinstance(returned, torch.Tensor):
            what = f"swap returned {brief(returned)}, not a tensor"
            raise Refused(what, "a function without `return` gives None: return what you received.")
        tensors[1] = returned

    def truth(self, before, place, case):
        return [before[place][0], before[place ^ 1][0]]

    def name_of(self, index, case):
        return "the returned tensor" if index else "x"


def hang_in_a_swap(case, error) -> str:
    return hang_between_neighbours(case, error, "dist.batch_isend_irecv(…) begins several messages")


def own_returned(trial) -> str:
    if all(same(a[1], b[0]) for a, b in zip(trial.after, trial.before)):
        return (
            "every rank returns its own x. What is received needs a tensor of its own, as large "
            "as x."
        )
    return ""


def wrong_partner(trial) -> str:
    for place, (_, got) in enumerate(trial.after):
        for other in range(trial.case.n):
            if other != place ^ 1 and other != place and same(got, trial.before[other][0]):
                return (
                    f"rank {place} got what rank {other} had. 0 and 1 are partners, and 2 and 3: "
                    "an even rank's partner is rank + 1, an odd one's rank - 1."
                )
    return ""


def another_kind_returned(trial) -> str:
    for x, got in trial.after:
        if got.shape != x.shape or got.dtype != x.dtype:
            return "the result has the shape and the dtype of x, whatever these are."
    return ""


def sum_returned(trial) -> str:
    for place, (_, got) in enumerate(trial.after):
        if same(got, trial.before[place][0] + trial.before[place ^ 1][0]):
            return "this is the sum of both. Only the partner's x was asked for."
    return ""


def overwritten_before_it_was_sent(trial) -> str:
    for place, (x, _) in enumerate(trial.after):
        if not same(x, trial.before[place][0]):
            return (
                f"rank {place}'s x has changed: it is only sent, and stays as it is. What is "
                "received needs a tensor of its own, as large as x."
            )
    return ""


ONCE = (
    "each rank sends its x once, to its partner alone: in one message, in its own dtype, and in no "
    "collective."
)
NO_SUCH_PARTNER = (
    "a message names a rank that there is not. An even rank's partner is rank + 1, and an odd "
    "one's is rank - 1. The last rank is odd, so its partner is the one before it."
)


def need_one_message(trial):
    for place in range(trial.case.n):
        count = len(trial.sends(place))  # 0 if another thread has sent it: that is not seen
        what = f"rank {place} sent {messages(count)}; one is enough"
        need_cost(trial, count <= 1, what, ONCE)
        sent, whole = trial.sent_bytes[place], trial.before[place][0].nbytes
        what = f"rank {place} sent {megabytes(sent)}; its x has {megabytes(whole)}"
        need_cost(trial, near(sent, whole) or not kernel_counts(), what, ONCE)
    return f"cost, {trial.case}: one message from each rank"


EXERCISE = Collective(
    "2.1",
    "swap",
    task=Swap(),
    cases=[Case(2), Case(4), Case(6), Case(4, shape=(2, 3), dtype=torch.int64)],
    diagnoses=[
        another_kind_returned,
        own_returned,
        wrong_partner,
        sum_returned,
        overwritten_before_it_was_sent,
    ],
    large=[Case(4, length=LARGE), Case(2, length=LARGE, dtype=torch.float32)],
    need_cost=need_one_message,
    explain_hang=hang_in_a_swap,
    hints=(
        "Who is the partner of rank 0, of 1, of 2, of 3? Write the four numbers down.",
        "`dist.send` does not return before somebody receives. If both partners send first, "
        "nobody does. `dist.batch_isend_irecv` begins several messages at once, and returns "
        "their requests.",
        "An empty tensor of the same shape; a list of two dist.P2POp, one to send x, one to "
        "receive into the empty one; begin this batch; wait for each request; return.",
    ),
    lab=None,
    errors=dict.fromkeys(("out of range", "Group rank", "Global rank", "SIGSEGV"), NO_SUCH_PARTNER),
)
