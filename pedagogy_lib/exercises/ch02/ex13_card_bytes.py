"""The bytes that leave each machine in a ring whose ranks come in some order."""

from ..kit import Formula


def where(order, machine_of) -> list[tuple[int, int]]:
    """For each message of a step, the machines that it leaves and comes to."""
    ring = zip(order, [*order[1:], order[0]])
    return [(machine_of[rank], machine_of[following]) for rank, following in ring]


def truth(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (1 + max(machine_of))
    for left, entered in where(order, machine_of):
        if left != entered:
            totals[left] += 2 * (n - 1) * nbytes / n
    return totals


def every_message(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (1 + max(machine_of))
    for left, _ in where(order, machine_of):
        totals[left] += 2 * (n - 1) * nbytes / n
    return totals


def without_the_last_link(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (1 + max(machine_of))
    for left, entered in where(order, machine_of)[:-1]:
        if left != entered:
            totals[left] += 2 * (n - 1) * nbytes / n
    return totals


def one_half(order, machine_of, nbytes):
    return [total / 2 for total in truth(order, machine_of, nbytes)]


def whole_tensor(order, machine_of, nbytes):
    n = len(order)
    return [total * n / (2 * (n - 1)) for total in truth(order, machine_of, nbytes)]


def what_comes_in_as_well(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (1 + max(machine_of))
    for left, entered in where(order, machine_of):
        if left != entered:
            totals[left] += 2 * (n - 1) * nbytes / n
            totals[entered] += 2 * (n - 1) * nbytes / n
    return totals


def of_each_rank(order, machine_of, nbytes):
    n = len(order)
    return [2 * (n - 1) * nbytes / n] * n


def by_place(order, machine_of, nbytes):
    return truth(list(range(len(order))), machine_of, nbytes)


def all_cards_together(order, machine_of, nbytes):
    total = sum(truth(order, machine_of, nbytes))
    return [total] * (1 + max(machine_of))


EXERCISE = Formula(
    "2.13",
    "card_bytes",
    cases={
        "2 machines, 2 ranks each, in order": [([0, 1, 2, 3], [0, 0, 1, 1], 4e6)],
        "2 machines, 2 ranks each, in turns": [([0, 2, 1, 3], [0, 0, 1, 1], 4e6)],
        "2 machines, 3 and 1 ranks": [([0, 1, 2, 3], [0, 0, 0, 1], 4e6)],
        "3 machines, 2 ranks each, half in turns": [([0, 1, 2, 4, 3, 5], [0, 0, 1, 1, 2, 2], 6e6)],
        "one machine": [([1, 0, 2], [0, 0, 0], 3e6)],
    },
    truth=truth,
    mistakes=[
        ("asked is one number for each machine, and not for each rank.", of_each_rank),
        (
            "a message from rank to rank of one machine does not meet its card: only those that "
            "leave the machine count.",
            every_message,
        ),
        (
            "a ring closes: after the last rank of the order comes the first one again.",
            without_the_last_link,
        ),
        (
            "this is the reduce-scatter alone. The all-gather sends as much again over the same "
            "links.",
            one_half,
        ),
        (
            "a message of the ring is a chunk, nbytes / n, and each rank sends 2 (n - 1) of them; "
            "not the whole tensor.",
            whole_tensor,
        ),
        (
            "asked is what leaves a machine. What comes in passes the card in the other direction, "
            "at the same time.",
            what_comes_in_as_well,
        ),
        (
            "this is right for ranks 0, 1, 2, …: the neighbours of a rank are those in `order`.",
            by_place,
        ),
        (
            "this is the sum over all cards. Return a list, with one number a machine.",
            all_cards_together,
        ),
    ],
    asked="a list of bytes, one number for each machine",
    unit=" bytes",
    hints=(
        "Go round the ring: from each rank of the order to the following one, and from the last to "
        "the first. Which of these messages leave their machine?",
        "Each rank sends 2(n-1) chunks of nbytes / n to the one that follows. If that is on "
        "another machine, they all pass the card of the sender's.",
    ),
)
