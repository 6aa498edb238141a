"""An all-to-all, in which each rank has a tensor for every other rank."""

import torch

from coursekit.kit.collective_exercise import LARGE, Case, Collective
from coursekit.kit.diagnoses import same
from coursekit.kit.message_costs import is_near, megabytes, messages, need_cost

from ..shared.costs import SMALL, need_bytes
from ..shared.misconceptions import (
    changes_nothing,
    group_ignored,
    hang_between_neighbours,
    put_into_the_list,
)
from ..shared.tasks import RING_CASES
from .cases import AllToAll
from .truth import truth


def own_output_forgotten(trial) -> str:
    n = trial.case.n
    wrong = [
        [k for k in range(n) if not same(trial.after[place][k], trial.truth(place)[k])]
        for place in range(n)
    ]
    if wrong != [[place] for place in range(n)]:
        return ""
    return (
        "all that travels is right; what stays is missing: outputs[rank] is the own inputs[rank], "
        "which is sent nowhere, but copied: outputs[rank].copy_(…). (outputs[rank] = … only puts "
        "another tensor into the list.)"
    )


def inputs_mixed_up(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n):
            if same(trial.after[place][k], trial.truth(place)[k]):
                continue
            for other in range(n):
                for j in range(n):
                    if same(trial.after[place][k], trial.before[other][n + j]):
                        return (
                            f"rank {place}'s outputs[{k}] holds inputs[{j}] of rank {other}; it "
                            f"should hold inputs[{place}] of rank {k}. A rank sends inputs[peer] "
                            "to that peer, and what comes from a peer is outputs[peer]."
                        )
    return ""


def diagnose_sum_in_outputs(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n):
            got, was = trial.after[place][k], trial.before[place][k]
            if got.shape == was.shape and same(got, was + trial.truth(place)[k]) and got.numel():
                return (
                    f"rank {place}'s outputs[{k}] holds what came, added to what was there before. "
                    "What comes in replaces it; nothing is added."
                )
    return ""


def inputs_changed(trial) -> str:
    n = trial.case.n
    for place in range(n):
        for k in range(n, 2 * n):
            if not same(trial.after[place][k], trial.before[place][k]):
                return f"rank {place}'s inputs[{k - n}] has been overwritten; only outputs change."
    return ""


def need_straight_messages(trial):
    """Require that each piece goes straight to the rank that it is for."""
    n, chunk = trial.case.n, trial.before[0][-1].nbytes
    why = (
        "the result is right, but pieces travel that their receiver does not need, or that "
        "need not travel: send each input straight to the rank that it is for."
    )
    for place in range(n):
        sends, sent = trial.sends(place), trial.sent_bytes[place]
        what = f"rank {place} sent {megabytes(sent)}, {megabytes((n - 1) * chunk)} are enough"
        need_cost(trial, is_near(sent, (n - 1) * chunk) or chunk < SMALL, what, why)
        what = f"rank {place} sent {messages(len(sends))}; {n - 1} would do"
        need_cost(trial, len(sends) == n - 1, what, why)
    inputs = [trial.before[place][n:] for place in range(n)]
    sizes = [x.nbytes for place in range(n) for k, x in enumerate(inputs[place]) if k != place]
    need_bytes(trial, 1, sum(sizes))
    size = "" if chunk < SMALL else f"{megabytes((n - 1) * chunk)} in "
    return f"cost, {trial.case}: every rank sends {size}{messages(n - 1)}"


EXERCISE = Collective(
    "all_to_all",
    task=AllToAll(),
    truth=truth,
    cases=[Case(2), Case(4), *RING_CASES],
    diagnoses=[
        put_into_the_list,
        changes_nothing,
        group_ignored,
        inputs_changed,
        diagnose_sum_in_outputs,
        own_output_forgotten,
        inputs_mixed_up,
    ],
    large=[
        Case(4, length=LARGE // 4),
        Case(3, length=LARGE // 3, dtype=torch.float32),
        Case(3, length=5, uneven=True, dtype=torch.float32),  # small: bytes counted from the calls
    ],
    need_cost=need_straight_messages,
    explain_hang=hang_between_neighbours,
    hints=(
        "One of the n pieces stays. For the others: n - 1 rounds, and in each round everybody "
        "sends to one rank and receives from one.",
        "In round s send to rank + s, and receive from rank - s (both % n): exchange(…).",
        "Or put all sends and all receives into one batch, and then wait for all of them.",
    ),
    lab="collectives",
)
