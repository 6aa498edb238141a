"""The right results, and the results of known mistakes."""


def efficiencies(ranks, samples, seconds) -> list[float]:
    """Divide the time of a step in which every rank kept its speed by the time that it took."""
    n, s, t = min(zip(ranks, samples, seconds))
    return [t * (s_k / s) * (n / n_k) / t_k for n_k, s_k, t_k in zip(ranks, samples, seconds)]


def compute_rank_throughputs(ranks, samples, seconds):
    return [s / t / n for n, s, t in zip(ranks, samples, seconds)]


def divide_by_entry(pick, figure=compute_rank_throughputs):
    """Return a wrong function: each figure is divided by that of the entry that `pick` chooses."""

    def wrong(ranks, samples, seconds):
        figures = figure(ranks, samples, seconds)
        return [one / figures[pick(ranks, samples, seconds)] for one in figures]

    return wrong


def fewest(ranks, samples, seconds):
    return ranks.index(min(ranks))


def compute_throughputs(ranks, samples, seconds):
    return [s / t for s, t in zip(samples, seconds)]


def key_by_ranks(ranks, samples, seconds):
    """Compute efficiencies with a dict, which keeps the last measurement per number of ranks."""
    found = {n: s / t / n for n, s, t in zip(ranks, samples, seconds)}
    return [found[n] / found[min(ranks)] for n in ranks]


def once_each(ranks, samples, seconds):
    found = {n: s / t / n for n, s, t in zip(ranks, samples, seconds)}
    return [one / found[min(ranks)] for one in found.values()]


def sort_by_ranks(ranks, samples, seconds):
    pairs = zip(ranks, efficiencies(ranks, samples, seconds))
    return [share for _, share in sorted(pairs)]


MISTAKES = [
    (
        "this is the speed-up: it is to be divided by how many times as many ranks there are.",
        divide_by_entry(fewest, compute_throughputs),
    ),
    (
        "you divide by the number of ranks, as if the first measurement had 1 rank. Divide by how "
        "many times as many ranks there are.",
        lambda ranks, *others: [
            one / n
            for one, n in zip(divide_by_entry(fewest, compute_throughputs)(ranks, *others), ranks)
        ],
    ),
    (
        "this is right for strong scaling alone. Where a step has more samples, the ranks have "
        "done more work in it: compare samples per second.",
        lambda ranks, samples, seconds: [
            min(zip(ranks, seconds))[1] * min(ranks) / t / n for n, t in zip(ranks, seconds)
        ],
    ),
    (
        "this is right for strong scaling from 1 rank alone: the smallest number of ranks may be "
        "larger, and the number of samples may grow.",
        lambda ranks, samples, seconds: [
            min(zip(ranks, seconds))[1] / t / n for n, t in zip(ranks, seconds)
        ],
    ),
    (
        "this is right for weak scaling alone. With strong scaling a step has to become shorter "
        "when ranks are added: compare samples per second and rank.",
        lambda ranks, samples, seconds: [min(zip(ranks, seconds))[1] / t for t in seconds],
    ),
    (
        "upside down: a training that slows down has an efficiency below 1.",
        lambda *lists: [1 / share for share in efficiencies(*lists)],
    ),
    (
        "the reference is the entry with the fewest ranks, wherever it stands in the lists.",
        divide_by_entry(lambda *lists: 0),
    ),
    (
        "the reference is the entry with the fewest ranks, and you took the one with the most.",
        divide_by_entry(lambda ranks, *others: ranks.index(max(ranks))),
    ),
    (
        "the reference is the entry with the fewest ranks, and you took the last one.",
        divide_by_entry(lambda *lists: -1),
    ),
    (
        "the reference is the entry with the fewest ranks, and you took the fastest one. So an "
        "efficiency above 1 can never be seen.",
        lambda *lists: [
            one / max(compute_rank_throughputs(*lists)) for one in compute_rank_throughputs(*lists)
        ],
    ),
    (
        "the reference is the entry with the fewest ranks, and you took the one with the fewest "
        "samples.",
        divide_by_entry(lambda ranks, samples, seconds: samples.index(min(samples))),
    ),
    (
        "the reference is the entry with the fewest ranks, and you took the one with the longest "
        "step.",
        divide_by_entry(lambda ranks, samples, seconds: seconds.index(max(seconds))),
    ),
    (
        "each entry is compared with the one before it. The reference is the same for all: the "
        "entry with the fewest ranks.",
        lambda *lists: [
            1.0,
            *(
                b / a
                for a, b in zip(
                    compute_rank_throughputs(*lists), compute_rank_throughputs(*lists)[1:]
                )
            ),
        ],
    ),
    (
        "this is what is lost; asked is what is left.",
        lambda *lists: [1 - share for share in efficiencies(*lists)],
    ),
    (
        "samples are divided by ranks with //, which cuts the fraction off: use /.",
        divide_by_entry(
            fewest,
            lambda ranks, samples, seconds: [
                s // n / t for n, s, t in zip(ranks, samples, seconds)
            ],
        ),
    ),
    (
        "an efficiency above 1 is cut off. It happens, and then it has a reason worth finding.",
        lambda *lists: [min(1.0, share) for share in efficiencies(*lists)],
    ),
    (
        "the values are right, in the order of the ranks: keep the order of the lists.",
        sort_by_ranks,
    ),
    (
        "two measurements may have the same number of ranks: a dict with this number as its key "
        "keeps only one of them.",
        key_by_ranks,
    ),
    (
        "two measurements may have the same number of ranks: return one ratio for each "
        "measurement, not for each number of ranks.",
        once_each,
    ),
    (
        "these are samples per second and rank; divide them by the figure of the entry with the "
        "fewest ranks.",
        compute_rank_throughputs,
    ),
    (
        "these are samples per second of all ranks together; what does one of them do, and how "
        "does this compare with the entry with the fewest ranks?",
        compute_throughputs,
    ),
    (
        "multiplied by the number of ranks instead of divided: `samples` are those of all ranks "
        "together already.",
        divide_by_entry(
            fewest,
            lambda ranks, samples, seconds: [s * n / t for n, s, t in zip(ranks, samples, seconds)],
        ),
    ),
    (
        "this is what each rank has to do, without the time that it takes.",
        divide_by_entry(
            fewest, lambda ranks, samples, seconds: [s / n for n, s in zip(ranks, samples)]
        ),
    ),
    (
        "seconds are multiplied in: a longer step is less efficient, so divide by them.",
        divide_by_entry(
            fewest,
            lambda ranks, samples, seconds: [s * t / n for n, s, t in zip(ranks, samples, seconds)],
        ),
    ),
]
