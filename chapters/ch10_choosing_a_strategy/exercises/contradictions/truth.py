"""The right results, and the results of known mistakes."""

from fractions import Fraction

from .cases import ORDER


def copies_of(row):
    """Return the number of copies of the model; None if it is not a whole number."""
    if row["dp"] is not None:
        return row["dp"]
    copies = Fraction(row["gpus"], row["tp"] * row["pp"])
    return int(copies) if copies.denominator == 1 else None


def ranks_are_wrong(row) -> bool:
    copies = copies_of(row)
    return copies is None or copies * row["tp"] * row["pp"] != row["gpus"]


def batch_is_wrong(row) -> bool:
    copies = copies_of(row)
    if copies is None:
        return False
    return Fraction(row["batch"], copies * row["micro_batch"]).denominator != 1


def rate_is_wrong(row, share=0.05) -> bool:
    seen = 1e12 * row["tflops"] * row["seconds"] * row["gpus"]
    return not (1 - share) * seen <= row["batch"] * row["flops"] <= (1 + share) * seen


TESTS = {"ranks": ranks_are_wrong, "batch": batch_is_wrong, "rate": rate_is_wrong}


def truth(row):
    return [name for name in ORDER if TESTS[name](row)]


def but(**tests):
    """Return the truth with other tests."""

    def mistaken(row):
        return [name for name in ORDER if (TESTS | tests)[name](row)]

    return mistaken


def compute_tflops(row) -> float:
    """Return the TFLOP/s of a GPU, computed from the other numbers of a row."""
    return row["batch"] * row["flops"] / row["seconds"] / row["gpus"] / 1e12


def has_wrong_rate_per_rank(row) -> bool:
    ranks = (row["dp"] or row["gpus"] // (row["tp"] * row["pp"])) * row["tp"] * row["pp"]
    return rate_is_wrong(row | {"gpus": ranks})


def differs_from_computed_rate(row) -> bool:
    return abs(compute_tflops(row) - row["tflops"]) > 0.05 * compute_tflops(row)


def divides_by_fractional_copies(row) -> bool:
    copies = row["dp"] or row["gpus"] / (row["tp"] * row["pp"])
    return row["batch"] % (copies * row["micro_batch"]) != 0


def divides_by_rounded_copies(row) -> bool:
    copies = row["dp"] or -(-row["gpus"] // (row["tp"] * row["pp"]))
    return row["batch"] % (copies * row["micro_batch"]) != 0


def divides_whole_shares(row) -> bool:
    """Return whether a copy's share, rounded down, is no whole number of micro-batches."""
    copies = copies_of(row)
    return bool(copies) and row["batch"] // copies % row["micro_batch"] != 0


def derives_copies_always(row) -> bool:
    copies = row["gpus"] // (row["tp"] * row["pp"])
    return bool(copies) and row["batch"] % (copies * row["micro_batch"]) != 0


MISTAKES = [
    (
        "where dp is not printed, it follows from the GPUs: it is not 1.",
        lambda row: truth(row | {"dp": row["dp"] or 1}),
    ),
    (
        "dp × tp × pp is compared with the GPUs, also where dp is printed.",
        but(ranks=lambda row: row["gpus"] % (row["tp"] * row["pp"]) != 0),
    ),
    (
        "more ranks than GPUs are a contradiction, too.",
        but(ranks=lambda row: copies_of(row) is None
            or copies_of(row) * row["tp"] * row["pp"] < row["gpus"]),
    ),
    *(
        ("a row without dp may have contradictions, too.", mistaken)
        for mistaken in (
            lambda row: [] if row["dp"] is None else truth(row),
            but(batch=lambda row: row["dp"] is not None and batch_is_wrong(row)),
        )
    ),
    (
        "where dp is not printed, the GPUs have to be a multiple of tp × pp.",
        but(ranks=lambda row: row["dp"] is not None and ranks_are_wrong(row)),
    ),
    (
        "too few ranks are wrong as well: ranks that nobody uses are no GPUs of the run.",
        but(
            ranks=lambda row: copies_of(row) is None
            or copies_of(row) * row["tp"] * row["pp"] > row["gpus"]
        ),
    ),
    (
        "each copy has its share of the batch, and that share is a whole number of "
        "micro-batches. This compares the whole batch with one micro-batch.",
        but(batch=lambda row: row["batch"] % row["micro_batch"] != 0),
    ),
    (
        "each copy's share has to be a whole number of micro-batches, not of samples alone.",
        but(batch=lambda row: bool(copies_of(row)) and row["batch"] % copies_of(row) != 0),
    ),
    *(
        ("where dp is printed, it says how many copies there are, even if it contradicts the "
         "GPUs.", mistaken)
        for mistaken in (but(batch=derives_copies_always), lambda row: truth(row | {"dp": None}))
    ),
    *(
        ("where nobody can say how many copies there are, the batch contradicts nothing.",
         but(batch=test))
        for test in (
            lambda row: batch_is_wrong(row) or copies_of(row) is None,
            divides_by_fractional_copies,
            divides_by_rounded_copies,
        )
    ),
    ("the copies of the model share out the batch. tp × pp GPUs together are one copy.",
     but(batch=lambda row: bool(copies_of(row))
         and row["batch"] % (row["gpus"] * row["micro_batch"]) != 0)),
    ("it is not enough that each copy gets one micro-batch: its share is a whole number of "
     "them.",
     but(batch=lambda row: bool(copies_of(row))
         and row["batch"] // copies_of(row) < row["micro_batch"])),
    (
        "a batch that the copies cannot share out without a rest is a contradiction, too.",
        but(batch=divides_whole_shares),
    ),
    (
        "it is not enough that dp divides the batch and micro_batch divides it: their product "
        "has to.",
        but(batch=lambda row: bool(copies_of(row)) and (
            row["batch"] % copies_of(row) != 0 or row["batch"] % row["micro_batch"] != 0)),
    ),
    (
        "the batch has to be a multiple of dp × micro_batch, and not the other way round.",
        but(batch=lambda row: bool(copies_of(row))
            and copies_of(row) * row["micro_batch"] % row["batch"] != 0),
    ),
    (
        "each test stands for itself: a row with wrong ranks may have a wrong batch, too.",
        but(batch=lambda row: batch_is_wrong(row) and not ranks_are_wrong(row)),
    ),
    *(
        ("this allows more than 5 % of the printed rate.",
         but(rate=lambda row, share=share: rate_is_wrong(row, share)))
        for share in (0.06, 0.07, 0.1)
    ),
    *(
        ("a printed rate may be too high or too low: both are contradictions.", but(rate=test))
        for test in (
            lambda row: compute_tflops(row) > 1.05 * row["tflops"],
            lambda row: compute_tflops(row) < 0.95 * row["tflops"],
        )
    ),
    *(
        ("5 % of the printed figure are allowed, because figures are rounded and formulas "
         "differ a little.",
         but(rate=lambda row, share=share: rate_is_wrong(row, share)))
        for share in (1e-9, 0.01)
    ),
    (
        "5 % are a share: for a printed 300 TFLOP/s that is 15, and not 0.05.",
        but(rate=lambda row: abs(compute_tflops(row) - row["tflops"]) > 0.05),
    ),
    (
        "5 % of the printed rate are 0.05 times it, and not 5 times.",
        but(rate=lambda row: rate_is_wrong(row, 5)),
    ),
    (
        "5 % below the printed rate is 0.95 times it. Divided by 1.05, it is less far below.",
        but(rate=lambda row: not
            row["tflops"] / 1.05 <= compute_tflops(row) <= row["tflops"] * 1.05),
    ),
    (
        "the 5 % are a share of the printed rate, not of the computed one.",
        but(rate=differs_from_computed_rate),
    ),
    (
        "the rate is that of the printed GPUs, even if dp × tp × pp is another number.",
        but(rate=has_wrong_rate_per_rank),
    ),
    (
        "by this no row is right: the printed rate is in 10¹² FLOP/s and that of one GPU, and "
        "a step has all samples of the batch.",
        but(rate=lambda row: True),
    ),
    *(
        ("the words have a fixed order: ranks, batch, rate.", mistaken)
        for mistaken in (lambda row: truth(row)[::-1], lambda row: sorted(truth(row)))
    ),
    (
        "return all contradictions of a row, not the first alone.",
        lambda row: truth(row)[:1],
    ),
]  # fmt: skip
