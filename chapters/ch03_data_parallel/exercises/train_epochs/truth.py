"""The right results, and the results of known mistakes."""

import itertools
from collections import Counter

from coursekit.kit import complains, first_true
from coursekit.kit.reference_training import (
    RATE,
    ends_of_wrong_loops,
    flat,
    model_of,
    not_exchanged,
    train_alone,
)
from pedagogy_lib.basics.closeness import format_gap

from .cases import EPOCHS, Samples

UNEVEN = (
    "some ranks have a batch more than others, and wait in its backward for ranks that are done. "
    "All have to take equally many samples, also where their number is no multiple of the ranks: "
    "some samples are then read twice, or left out"
)


def flatten_lists(lists):
    return list(itertools.chain.from_iterable(lists))


def orders_of(trial) -> list[list[list[int]]]:
    """Return, for each epoch, the samples of each rank in it."""
    each = len(trial[0].batches) // EPOCHS
    return [
        [flatten_lists(of.batches[k * each : (k + 1) * each]) for of in trial]
        for k in range(EPOCHS)
    ]


@complains
def work_is_shared_out(trial):
    length, _ = trial.case.args
    steps = [len(of.batches) for of in trial]
    taken = [len(flatten_lists(of.batches)) for of in trial]
    if not all(steps):
        yield f"loss_fn was never called on {trial.name_of_rank(steps.index(0))}", (
            "is there a loop, and is the loss what loss_fn gives? It may be any function"
        )  # fmt: skip
    if len(set(steps)) > 1 or len(set(taken)) > 1:
        yield f"steps of each rank: {steps}; samples that each has taken: {taken}", UNEVEN
    if steps[0] % EPOCHS or taken[0] * trial.n <= (EPOCHS - 1) * length:
        what = f"{steps[0]} steps and {taken[0]} samples on each rank in {EPOCHS} epochs"
        yield what, (
            "is an epoch missing? Or is the loop over batches not run in each epoch, from its "
            "beginning?"
        )  # fmt: skip
    for epoch, order in enumerate(orders_of(trial)):
        times = Counter(flatten_lists(order))
        if sum(abs(times[i] - 1) for i in range(length)) > bool(length % trial.n) * (trial.n - 1):
            readers = describe_readers([sum(i in taken for taken in order) for i in range(length)])
            yield f"epoch {epoch}: of {length} samples, {readers}", why_division(order, length)


def describe_readers(by_ranks) -> str:
    """Describe readers like this: `12 are taken by 2 ranks and 12 are taken by nobody`."""
    words = {0: "nobody", 1: "one rank"}
    return " and ".join(
        f"{number} {'is' if number == 1 else 'are'} taken by {words.get(ranks, f'{ranks} ranks')}"
        for ranks, number in sorted(Counter(by_ranks).items(), reverse=True)
    )


def why_division(order, length) -> str:
    sets = [set(taken) for taken in order]
    takes_all = all(len(s) == length for s in sets)
    whole = (
        "every rank goes through the whole dataset, so an epoch costs each rank as much as one "
        "process alone. A DataLoader knows nothing of ranks"
    )
    return first_true({
        "a rank takes the same sample several times in an epoch":
            any(len(s) < len(taken) for s, taken in zip(sets, order)),
        f"{whole}. They even take the same samples at the same time: all ranks compute one "
        "gradient.": takes_all and order[0] == order[1],
        whole: takes_all,
        "all ranks take the same part: which part it is has to depend on the rank":
            all(s == sets[0] for s in sets),
        "some ranks take the same part, and others another one: does the division count all ranks, "
        "however many they are?": any(a == b for a, b in itertools.combinations(sets, 2)),
        "samples are left out, and more than equal shares make necessary. If the last batch of a "
        "rank is smaller, it belongs to the epoch all the same":
            len(set.union(*sets)) == sum(map(len, sets)),
        "the ranks do not agree on the order that they divide up: each shuffles for itself. One "
        "order for all needs one seed for all": True,
    })  # fmt: skip


@complains
def orders_are_new(trial):
    orders, in_full = orders_of(trial), trial.case.args[0] // trial.n  # without padding
    same = [(a, b) for b in range(EPOCHS) for a in range(b) if orders[a] == orders[b]]
    if same:
        repeated = [f"epoch {b} has the order of epoch {a}" for a, b in same if a == same[0][0]]
        yield " and ".join(repeated), first_true({
            "epoch 1 repeats epoch 0, and then the order changes: the number of the epoch comes "
            "too late. An order is drawn when the loop over batches begins": same == [(0, 1)],
            "nothing shuffles: each epoch goes through the dataset from its beginning to its end":
                all(taken[:in_full] == sorted(taken[:in_full]) for taken in orders[0]),
            "the order is shuffled, and the same in each epoch: who draws it has to be told the "
            "number of the epoch": True,
        })  # fmt: skip


@complains
def batches_are_full(trial):
    samples = trial.case.args[1]
    for place, of in enumerate(trial):
        sizes = [len(batch) for batch in of.batches[: len(of.batches) // EPOCHS]]
        full, rest = divmod(sum(sizes), samples)
        wanted = [samples] * full + [rest] * bool(rest)
        if sizes != wanted:
            told = f"takes {sizes} samples in the steps of an epoch, expected {wanted}"
            yield f"{trial.name_of_rank(place)} {told}", (
                "`batch_size` is what each rank takes in a step; over all ranks that is n times as "
                "many"
            )  # fmt: skip
        trained = len(flatten_lists(of.batches))
        if of.read >= trial.n * trained:
            what = f"{trial.name_of_rank(place)} reads {of.read} samples, and trains on {trained}"
            yield what, (
                "each rank reads the others' samples, too, and throws them away: it reads as much "
                "as one process alone"
            )  # fmt: skip


def steps_of(trial):
    """Return the batch that all ranks together take in each step."""
    dataset = Samples(trial.case.args[0])
    return [dataset[flatten_lists(pieces)] for pieces in zip(*(of.batches for of in trial))]


def one_process(trial, place):
    return train_alone(steps_of(trial))[0][-1]


def mistakes(trial, place):
    steps = steps_of(trial)
    return {
        "the model that was given is as it was: train it, and no copy of it. Or are its gradients "
        "cleared between backward() and step(), which needs them?":
            flat(model_of(place).parameters()),
        "gradients are set back once in an epoch, so a step follows those of earlier steps as "
        "well: backward() adds to `.grad`. Set them back for each batch":
            train_alone(steps, keep=lambda number: number % (len(steps) // EPOCHS))[0][-1],
    } | ends_of_wrong_loops(steps, trial.n)  # fmt: skip


def describe_weights(trial, place) -> str:
    off = format_gap(trial[place].weights, one_process(trial, place))
    told = f"the weights are off by up to {off} from one process's, lr {RATE}"
    return f"{trial.name_of_rank(place)}: {told}"


def why_apart(trial) -> str:
    """Diagnose replicas that differ at the end."""
    told = not_exchanged(trial)
    if told and any(call.name == "all_reduce" for calls in trial.calls for call in calls):
        return (
            "gradients were exchanged, and the replicas differ all the same: did they start equal? "
            "DistributedDataParallel sees to that, too"
        )
    return told
