"""The right results, and the results of known mistakes."""


def where(order, machine_of) -> list[tuple[int, int]]:
    """Return (the machine that it leaves, the one that it enters) for each message of a step."""
    ring = zip(order, [*order[1:], order[0]])
    return [(machine_of[rank], machine_of[following]) for rank, following in ring]


def truth(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (1 + max(machine_of))
    for left, entered in where(order, machine_of):
        if left != entered:
            totals[left] += 2 * (n - 1) * nbytes / n
    return totals


def sum_outgoing_bytes(order, machine_of, links, bytes_of_link) -> list[float]:
    """Return the bytes that leave each machine if each link of the ring carries `bytes_of_link`."""
    totals = [0.0] * (1 + max(machine_of))
    for left, entered in links:
        if left != entered:
            totals[left] += bytes_of_link
    return totals


def count_link_bytes(order, nbytes):
    n = len(order)
    return 2 * (n - 1) * nbytes / n


def every_message(order, machine_of, nbytes):
    totals = [0.0] * (1 + max(machine_of))
    for left, _ in where(order, machine_of):
        totals[left] += count_link_bytes(order, nbytes)
    return totals


def omit_last_link(order, machine_of, nbytes):
    links = where(order, machine_of)[:-1]
    return sum_outgoing_bytes(order, machine_of, links, count_link_bytes(order, nbytes))


def first_link_alone(order, machine_of, nbytes):
    links = [link for link in where(order, machine_of) if len(set(link)) > 1][:1]
    return sum_outgoing_bytes(order, machine_of, links, count_link_bytes(order, nbytes))


def back_to_rank_0(order, machine_of, nbytes):
    links = [(machine_of[a], machine_of[b]) for a, b in zip(order, [*order[1:], 0])]
    return sum_outgoing_bytes(order, machine_of, links, count_link_bytes(order, nbytes))


def one_link_of_each(order, machine_of, nbytes):
    return [
        float(total > 0) * count_link_bytes(order, nbytes)
        for total in truth(order, machine_of, nbytes)
    ]


def one_link_between_two(order, machine_of, nbytes):
    links = set(where(order, machine_of))
    return sum_outgoing_bytes(order, machine_of, links, count_link_bytes(order, nbytes))


def one_half(order, machine_of, nbytes):
    return [total / 2 for total in truth(order, machine_of, nbytes)]


def replace_link_bytes(of_each_link):
    """Return a wrong function with the right links and another number of bytes for each of them."""

    def mistaken(order, machine_of, nbytes):
        links = where(order, machine_of)
        amount = of_each_link(len(order), 1 + max(machine_of), nbytes)
        return sum_outgoing_bytes(order, machine_of, links, amount)

    return mistaken


def what_comes_in_as_well(order, machine_of, nbytes):
    return [2 * total for total in truth(order, machine_of, nbytes)]


def ignore_order(order, machine_of, nbytes):
    return truth(list(range(len(order))), machine_of, nbytes)


def place_for_rank(order, machine_of, nbytes):
    totals = [0.0] * (1 + max(machine_of))
    for place, (left, entered) in enumerate(where(order, machine_of)):
        totals[machine_of[place]] += (left != entered) * count_link_bytes(order, nbytes)
    return totals


def equal_machines(order, machine_of, nbytes):
    machines = 1 + max(machine_of)
    size = max(1, len(order) // machines)
    placed = [min(rank // size, machines - 1) for rank in range(len(order))]
    return truth(order, placed, nbytes)


def one_machine_after_another(order, machine_of, nbytes):
    return truth(order, sorted(machine_of), nbytes)


def sort_by_ring_order(order, machine_of, nbytes):
    machines = list(dict.fromkeys(machine_of[rank] for rank in order))
    totals = truth(order, machine_of, nbytes)
    return [totals[machine] for machine in machines]


def all_cards_together(order, machine_of, nbytes):
    total = sum(truth(order, machine_of, nbytes))
    return [total] * (1 + max(machine_of))


def towards_later_machines(order, machine_of, nbytes):
    links = [link for link in where(order, machine_of) if link[0] < link[1]]
    return sum_outgoing_bytes(order, machine_of, links, count_link_bytes(order, nbytes))


def rank_for_place(order, machine_of, nbytes):
    links = [(machine_of[k], machine_of[order[(k + 1) % len(order)]]) for k in range(len(order))]
    return sum_outgoing_bytes(order, machine_of, links, count_link_bytes(order, nbytes))


def half_of_x(order, machine_of, nbytes):
    return [nbytes / 2] * (1 + max(machine_of))


NOT_WHOLE = "chunks need not be whole numbers of bytes here: keep the fraction."

ALL_TRAVELS_ROUND = (
    "a message of the ring is a chunk, nbytes / n, and each rank sends 2 (n - 1) of them; not the "
    "whole tensor."
)

N_IS_THE_RANKS = "n is the number of ranks: the ring goes from rank to rank, in as many chunks."

MISTAKES = [
    (
        "a message from rank to rank of one machine does not meet its card: only those that "
        "leave the machine count.",
        every_message,
    ),
    (NOT_WHOLE, replace_link_bytes(lambda n, machines, nbytes: 2 * (n - 1) * (nbytes // n))),
    (NOT_WHOLE, replace_link_bytes(lambda n, machines, nbytes: 2 * (n - 1) * nbytes // n)),
    ("only the first link is looked at: is the `return` inside the loop?", first_link_alone),
    (
        "a message also leaves a machine on its way to one with a lower number: compare with "
        "!=, not with <.",
        towards_later_machines,
    ),
    (
        "one end of a message is taken from `order`, the other one is not: the rank at a place "
        "of the ring is order[place], and it sends to the one at the following place.",
        rank_for_place,
    ),
    ("half of the tensor is what two ranks send in each half; look at the links.", half_of_x),
    (
        "a ring closes: after the last rank of the order comes the first one again.",
        omit_last_link,
    ),
    (
        "a ring closes where it began: after the last rank of the order comes the first one "
        "of the order, order[0], which need not be rank 0.",
        back_to_rank_0,
    ),
    (
        "several links may leave a machine, and each counts: add them up, with += where you "
        "have =.",
        one_link_of_each,
    ),
    (
        "several links may lead from one machine to the same other one, and each counts.",
        one_link_between_two,
    ),
    (
        "this is the reduce-scatter alone. The all-gather sends as much again over the same links.",
        one_half,
    ),
    (ALL_TRAVELS_ROUND, replace_link_bytes(lambda n, machines, nbytes: nbytes)),
    (
        "each half of an all-reduce has n - 1 steps, not n: a rank sends 2 (n - 1) chunks.",
        replace_link_bytes(lambda n, machines, nbytes: 2 * nbytes),
    ),
    (ALL_TRAVELS_ROUND, replace_link_bytes(lambda n, machines, nbytes: (n - 1) * nbytes)),
    (ALL_TRAVELS_ROUND, replace_link_bytes(lambda n, machines, nbytes: 2 * (n - 1) * nbytes)),
    (
        "this is one chunk. A rank sends n - 1 of them in the reduce-scatter, and n - 1 in the "
        "all-gather.",
        replace_link_bytes(lambda n, machines, nbytes: nbytes / n),
    ),
    (
        N_IS_THE_RANKS,
        replace_link_bytes(lambda n, machines, nbytes: 2 * (machines - 1) * nbytes / machines),
    ),
    (
        "asked is what leaves a machine. What comes in passes the card in the other direction, "
        "at the same time.",
        what_comes_in_as_well,
    ),
    (
        "this is right for ranks 0, 1, 2, …: the neighbours of a rank are those in `order`.",
        ignore_order,
    ),
    (
        "`order` says which rank is at a place of the ring, `machine_of` on which machine a "
        "rank is: the machine at place i is machine_of[order[i]], not machine_of[i].",
        place_for_rank,
    ),
    (
        "this is right where each machine has as many ranks, one after another. On which "
        "machine a rank really is says `machine_of`.",
        equal_machines,
    ),
    (
        "this is right where ranks are numbered machine by machine. They need not be: "
        "machine_of[rank] is the machine of a rank.",
        one_machine_after_another,
    ),
    (
        "the numbers are right, in the order in which the ring meets the machines. Asked is "
        "machine 0 first.",
        sort_by_ring_order,
    ),
    (
        "this is the sum over all cards. Return a list, with one number a machine.",
        all_cards_together,
    ),
]
