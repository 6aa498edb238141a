"""The right results, and the results of known mistakes."""


def truth(parameters, ranks, link, host, backward):
    of_rank, bytes_16 = parameters / ranks, 2
    gone = of_rank * bytes_16 / link  # the moment when the last gradient has left
    computed = backward  # the moment when the backward ends
    begins = computed if gone < computed else gone
    touched = sum((2, 3 * 4, 3 * 4, 2))  # gradient read; three numbers read and written; parameter
    return {
        "gradients": begins - computed,
        "update": ranks * of_rank * touched / host,
        "parameters": gone,
    }


def but(**changed):
    """Return the truth with other functions of the five arguments."""

    def mistaken(*args):
        return truth(*args) | {name: change(*args) for name, change in changed.items()}

    return mistaken


def transfer_seconds(parameters, ranks, link, *rest):
    return 2 * parameters / ranks / link


def visible_transfer(parameters, ranks, link, host, backward, nbytes=2):
    return max(0, nbytes * parameters / ranks / link - backward)


def scale_update(times):
    return but(update=lambda p, n, link, host, b: times * p / host)


MISTAKES = [
    ("gradients leave while the backward computes: only what takes longer than it is waited for.",
     but(gradients=transfer_seconds)),
    ("if gradients leave faster than the backward computes, nothing waits: no time is negative.",
     but(gradients=lambda p, n, link, h, b: transfer_seconds(p, n, link) - b)),
    ("a backward hides at most its own seconds: gradients that take longer are waited for.",
     but(gradients=lambda *args: 0.0)),
    ("`gradients` are what lasts longer than the backward: this is the part that it hides.",
     but(gradients=lambda p, n, link, h, b: min(transfer_seconds(p, n, link), b))),
    ("this takes the longer one of both. What counts is how much longer the gradients take.",
     but(gradients=lambda p, n, link, h, b: max(transfer_seconds(p, n, link), b))),
    ("if gradients leave faster than the backward computes, nothing waits for them.",
     but(gradients=lambda p, n, link, h, b: abs(transfer_seconds(p, n, link) - b))),
    ("the backward comes first, and hides the gradients: its own seconds are not added.",
     but(gradients=lambda p, n, link, h, b: transfer_seconds(p, n, link) + b)),
    ("all ranks compute their backwards at the same time: each has all of its seconds.",
     but(gradients=lambda p, n, link, h, b: max(0, transfer_seconds(p, n, link) - b / n))),
    ("a rank moves its share alone, over a link of its own: divide by the ranks.",
     but(gradients=lambda p, n, link, h, b: max(0, 2 * p / link - b),
         parameters=lambda p, n, link, h, b: 2 * p / link)),
    ("a rank sends the gradients of its share alone: divide by the ranks.",
     but(gradients=lambda p, n, link, h, b: max(0, 2 * p / link - b))),
    ("a rank gets the parameters of its share back, and no more: divide by the ranks.",
     but(parameters=lambda p, n, link, h, b: 2 * p / link)),
    ("all ranks use the same memory of the CPUs: the update of all parameters goes through it.",
     but(update=lambda p, n, link, h, b: 28 * p / n / h)),
    ("the CPUs update each parameter once: not once for each rank.",
     but(update=lambda p, n, link, h, b: 28 * p * n / h)),
    ("the update needs 28 bytes for each parameter, in the CPUs' memory: states are read and "
     "written.", scale_update(12)),
    ("the update needs 28 bytes for each parameter: it reads states, and writes them, too.",
     scale_update(14)),
    ("the update needs 28 bytes for each parameter: a gradient and a parameter of 2 bytes each, "
     "beside the states.", scale_update(24)),
    ("the update needs 28 bytes for each parameter: 2 + 12 + 12 + 2.", scale_update(16)),
    ("the update needs 28 bytes for each parameter: not those that travel.", scale_update(2)),
    ("the update moves through the CPUs' memory, and not through the link.",
     but(update=lambda p, n, link, h, b: 28 * p / link)),
    ("the update moves through the CPUs' memory, and not through the link.",
     but(update=lambda p, n, link, h, b: 28 * p / n / link)),
    ("gradients and parameters travel over the link of their GPU, not through `host`.",
     but(gradients=lambda p, n, link, h, b: max(0, 2 * p / n / h - b),
         parameters=lambda p, n, link, h, b: 2 * p / n / h)),
    ("gradients travel in 16 bits: 2 bytes each.",
     but(gradients=lambda *args: visible_transfer(*args, nbytes=4))),
    ("parameters travel in 16 bits: 2 bytes each.",
     but(parameters=lambda p, n, link, h, b: 4 * p / n / link)),
    ("gradients and parameters travel in 16 bits: 2 bytes each.",
     but(gradients=lambda *args: visible_transfer(*args, nbytes=4),
         parameters=lambda p, n, link, h, b: 4 * p / n / link)),
    ("the backward is over when parameters come back: nothing hides them.",
     but(parameters=visible_transfer)),
    ("the update comes after the backward: nothing hides it.",
     but(update=lambda p, n, link, h, b: max(0, 28 * p / h - b))),
    ("bytes and not parameters pass the link: 2 for each.",
     but(gradients=lambda *args: visible_transfer(*args, nbytes=1),
         parameters=lambda p, n, link, h, b: p / n / link)),
]  # fmt: skip
