"""The right results, and the results of known mistakes."""

from fractions import Fraction

from coursekit.kit.tables import tabulate

from .cases import POSSIBLE


@tabulate(lambda: list(POSSIBLE.values()))
def truth(arguments, world_size) -> dict:
    dp = Fraction(world_size, arguments["tp"] * arguments["pp"])
    found = {
        "dp": dp,
        "layers": Fraction(arguments["layers"], arguments["pp"]),
        "heads": Fraction(arguments["heads"], arguments["tp"]),
        "microbatches": Fraction(arguments["global_batch"]) / (dp * arguments["micro_batch"]),
    }
    return {key: int(value) for key, value in found.items()}


MISTAKES = {
    "dp": [
        (lambda a, n: n, "all ranks together are tp × pp × dp of them"),
        (lambda a, n: n // a["tp"], "one copy of the model needs tp × pp ranks, not tp alone"),
        (lambda a, n: n // a["pp"], "one copy of the model needs tp × pp ranks, not pp alone"),
        (lambda a, n: a["tp"] * a["pp"], "these are the ranks of one copy: how many copies are "
         "there?"),
    ],
    "layers": [
        (lambda a, n: a["layers"] // a["tp"], "layers are shared out among stages, along pp"),
        (lambda a, n: a["layers"], "these are all layers; asked are those of a stage"),
    ],
    "heads": [
        (lambda a, n: a["heads"] // a["pp"], "heads are shared out along tp"),
        (lambda a, n: a["heads"], "these are all heads; asked are those of a rank"),
    ],
    "microbatches": [
        (lambda a, n: a["global_batch"] // a["micro_batch"], "the samples of a step are shared out "
         "among the copies first: each goes through its own share"),
        (lambda a, n: a["global_batch"] * a["tp"] * a["pp"] // n, "this is how many samples each "
         "copy gets. Several of them make a micro-batch"),
        (lambda a, n: a["global_batch"] // (a["micro_batch"] * n), "the ranks of one copy "
         "compute with the same samples: only copies share them out"),
    ],
}  # fmt: skip


@tabulate(lambda: list(POSSIBLE.values()))
def wrong_numbers(arguments, world_size) -> dict[str, list[tuple]]:
    return {key: [(f(arguments, world_size), why) for f, why in known]
            for key, known in MISTAKES.items()}  # fmt: skip
