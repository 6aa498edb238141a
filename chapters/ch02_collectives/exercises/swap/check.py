"""A swap of tensors between neighbours."""

import torch

from coursekit.kit.collective_exercise import LARGE, Case, Collective
from coursekit.kit.diagnoses import same
from coursekit.kit.message_costs import is_near, megabytes, messages, need_cost
from pedagogy_lib.measuring.wire_bytes import kernel_counts

from ..shared.misconceptions import hang_between_neighbours
from .cases import Swap
from .truth import truth


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
        count = len(trial.sends(place))  # 0 if another thread has sent it, which is not observed
        what = f"rank {place} sent {messages(count)}; one is enough"
        need_cost(trial, count <= 1, what, ONCE)
        sent, whole = trial.sent_bytes[place], trial.before[place][0].nbytes
        what = f"rank {place} sent {megabytes(sent)}; its x has {megabytes(whole)}"
        need_cost(trial, is_near(sent, whole) or not kernel_counts(), what, ONCE)
    return f"cost, {trial.case}: one message from each rank"


EXERCISE = Collective(
    "swap",
    task=Swap(),
    truth=truth,
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
