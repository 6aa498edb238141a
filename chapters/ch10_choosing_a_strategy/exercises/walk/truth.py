"""The right results, and the results of known mistakes."""

from .cases import BILLION


def list_dp_plans(parameters, layers, gpus) -> list:
    """Return (plan, bytes on a GPU) of the answers with dp alone, in their order."""
    alone = {"dp": gpus, "tp": 1, "pp": 1}
    found = [
        (alone | {"zero": 0}, 18 * parameters),
        (alone | {"zero": 2}, 2 * parameters + 16 * parameters / gpus),
    ]
    if parameters < 100 * BILLION:
        found.append((alone | {"zero": 3}, 18 * parameters / gpus + 2 * parameters / layers))
    return found


def list_tp_plans(parameters, layers, gpus, machine) -> list:
    """Return (plan, bytes on a GPU) of the answers with tp, from few stages to many."""
    tp = machine if machine < gpus else gpus
    rest = gpus // tp
    counts = [pp for pp in range(1, rest + 1) if not rest % pp and not layers % pp]
    return [
        ({"dp": rest // pp, "tp": tp, "pp": pp, "zero": 0}, 18 * parameters / tp / pp)
        for pp in counts
    ]


def first_that_fits(answers, memory):
    for plan, nbytes in answers:
        if nbytes <= memory:
            return plan
    raise ValueError("nothing fits")


def truth(parameters, layers, memory, gpus, machine=8):
    answers = list_dp_plans(parameters, layers, gpus) + list_tp_plans(
        parameters, layers, gpus, machine
    )
    return first_that_fits(answers, memory)


def but(change):
    """Return the truth with the answers that `change` lists, given the right ones and arguments."""

    def mistaken(parameters, layers, memory, gpus, machine=8):
        alone = list_dp_plans(parameters, layers, gpus)
        more = list_tp_plans(parameters, layers, gpus, machine)
        answers = change(alone, more, parameters, layers, gpus, machine)
        return first_that_fits(answers, memory)

    return mistaken


def third(parameters, layers, gpus, nbytes, below=100 * BILLION) -> list:
    """Return question 3's answer as [(plan, nbytes)]; [] from `below` parameters on."""
    plan = {"dp": gpus, "tp": 1, "pp": 1, "zero": 3}
    return [(plan, nbytes)] if parameters < below else []


def any_stages(parameters, gpus, machine, divides=lambda pp: True) -> list:
    tp = min(machine, gpus)
    return [
        ({"dp": gpus // (tp * pp), "tp": tp, "pp": pp, "zero": 0}, 18 * parameters / (tp * pp))
        for pp in range(1, gpus // tp + 1)
        if divides(pp)
    ]


MISTAKES = [
    ("in question 1 all 18 bytes of a parameter lie on each GPU: DDP shards nothing.",
     but(lambda a, s, p, layers, n, m: [(a[0][0], 18 * p / n), *a[1:], *s])),
    ("in question 1 gradients and the optimizer's states count, too: 18 bytes a parameter, not 2.",
     but(lambda a, s, p, layers, n, m: [(a[0][0], 2 * p), *a[1:], *s])),
    *((f"{wrong} bytes a parameter are not 2 + 4 + 12.",
       but(lambda a, s, p, layers, n, m, wrong=wrong: [(a[0][0], wrong * p), *a[1:], *s]))
      for wrong in (16, 20)),
    ("the first answer that fits counts: ZeRO 2 is asked before ZeRO 3.",
     but(lambda a, s, p, layers, n, m: [a[0], *a[2:], a[1], *s])),
    ("the first answer that fits counts: question 3 comes before question 4.",
     but(lambda a, s, p, layers, n, m: [*a[:2], *s, *a[2:]])),
    ("the first answer that fits counts, and not the one that needs least.",
     but(lambda a, s, p, layers, n, m: sorted([*a, *s], key=lambda one: one[1]))),
    ("in question 2 the share is that of all GPUs, and not of one machine.",
     but(lambda a, s, p, layers, n, m: [a[0], (a[1][0], (2 + 16 / m) * p), *a[2:], *s])),
    ("shares may be fractions: divide with /, and round nothing.",
     but(lambda a, s, p, layers, n, m: [a[0], (a[1][0], (2 + 16 // n) * p), *a[2:], *s])),
    ("shares may be fractions: divide with /, and round nothing.",
     but(lambda a, s, p, layers, n, m: [
         *a[:2], *third(p, layers, n, 18 * p / n + 2 * (p // layers)), *s])),
    ("question 2 is for models of any size: the 100 billion are a limit of question 3.",
     but(lambda a, s, p, layers, n, m: [
         a[0], *(one for one in a[1:] if p < 100 * BILLION), *s])),
    ("in question 3 the share and the layer are there at the same time: they add up.",
     but(lambda a, s, p, layers, n, m: [
         *a[:2], *third(p, layers, n, max(18 * p / n, 2 * p / layers)), *s])),
    ("in question 2 the parameters stay whole on each GPU: 2 bytes each, beside the share of 16.",
     but(lambda a, s, p, layers, n, m: [a[0], (a[1][0], 18 * p / n), *a[2:], *s])),
    ("in question 2 the 16 bytes are shared out over the GPUs: gradients and optimizer states.",
     but(lambda a, s, p, layers, n, m: [a[0], *a[2:], *s])),
    ("in question 2 gradients are shared out, too, beside the optimizer's states.",
     but(lambda a, s, p, layers, n, m: [a[0], (a[1][0], (6 + 12 / n) * p), *a[2:], *s])),
    ("in question 3 one whole layer has to fit as well: ZeRO 3 gathers it to compute with it.",
     but(lambda a, s, p, layers, n, m: [*a[:2], *third(p, layers, n, 18 * p / n), *s])),
    ("in question 3 of the gathered layer only the parameters are there, 2 bytes each.",
     but(lambda a, s, p, layers, n, m: [
         *a[:2], *third(p, layers, n, 18 * p / n + 18 * p / layers), *s])),
    ("in question 3 ZeRO 3 gathers one layer at a time, not the whole model.",
     but(lambda a, s, p, layers, n, m: [*a[:2], *third(p, layers, n, (18 / n + 2) * p), *s])),
    ("question 3 is for fewer than 100 billion parameters.",
     but(lambda a, s, p, layers, n, m: [
         *a[:2], *third(p, layers, n, 18 * p / n + 2 * p / layers, below=10**15), *s])),
    ("100 billion parameters are not fewer than 100 billion.",
     but(lambda a, s, p, layers, n, m: [
         *a[:2], *third(p, layers, n, 18 * p / n + 2 * p / layers, below=100 * BILLION + 1), *s])),
    *((why, but(lambda a, s, p, layers, n, m, below=below: [
         *a[:2], *third(p, layers, n, 18 * p / n + 2 * p / layers, below=below), *s]))
      for why, below in (
          ("a billion is 10⁹: not 2³⁰, and not 10⁶.", 100 * 2**30),
          ("a billion is 10⁹: not 2³⁰, and not 10⁶.", 10**8),
          ("question 3 asks for 100 billion parameters, and not bytes.", 50 * BILLION))),
    ("in question 4 tp stays inside of a machine.",
     but(lambda a, s, p, layers, n, m: [*a, *list_tp_plans(p, layers, n, n)])),
    ("in question 4 gradients and the optimizer's states count, too: 18 bytes a parameter, not 2.",
     but(lambda a, s, p, layers, n, m: [*a, *((plan, need / 9) for plan, need in s)])),
    *(("in question 4 dp is what remains of the GPUs after tp and pp.",
       but(lambda a, s, p, layers, n, m, dp=dp: [
           *a, *((plan | {"dp": dp(n, plan)}, need) for plan, need in s)]))
      for dp in (lambda n, plan: n, lambda n, plan: n // plan["tp"],
                 lambda n, plan: n // plan["pp"], lambda n, plan: 1)),
    ("in question 4 nothing is sharded along dp: zero is 0.",
     but(lambda a, s, p, layers, n, m: [*a, *((plan | {"zero": 1}, need) for plan, need in s)])),
    ("in question 4, if there are fewer GPUs than a machine has, tp is all of them.",
     but(lambda a, s, p, layers, n, m: [
         *a, *[({"dp": n // (m * pp), "tp": m, "pp": pp, "zero": 0}, 18 * p / (m * pp))
               for pp in range(1, max(2, n // m + 1))
               if layers % pp == 0 and n // m % pp == 0]])),
    ("in question 4 tp is the number of GPUs in a machine: it is not always 8.",
     but(lambda a, s, p, layers, n, m: [*a, *list_tp_plans(p, layers, n, 8)])),
    ("in question 4 the stages have to divide the layers.",
     but(lambda a, s, p, layers, n, m: [
         *a, *any_stages(p, n, m, lambda pp: n // min(m, n) % pp == 0)])),
    ("in question 4 the stages have to divide what tp leaves of the GPUs.",
     but(lambda a, s, p, layers, n, m: [*a, *any_stages(p, n, m, lambda pp: layers % pp == 0)])),
    ("in question 4 the stages have to divide what tp leaves of the GPUs: not the GPUs alone.",
     but(lambda a, s, p, layers, n, m: [
         *a, *any_stages(p, n, m, lambda pp: layers % pp == 0 and n % pp == 0)])),
    ("in question 4 stages need not be a power of 2.",
     but(lambda a, s, p, layers, n, m: [
         *a, *[one for one in s if one[0]["pp"] & (one[0]["pp"] - 1) == 0]])),
    ("in question 4 the smallest number of stages that fits is asked.",
     but(lambda a, s, p, layers, n, m: [*a, *s[::-1]])),
    ("in question 4 one stage may be enough: then it is tp and dp alone.",
     but(lambda a, s, p, layers, n, m: [*a, *(one for one in s if one[0]["pp"] > 1)])),
    ("in question 4 nothing is sharded along dp: only tp and pp make a GPU's part smaller.",
     but(lambda a, s, p, layers, n, m: [
         *a, *[(plan, 18 * p / n) for plan, _ in s]])),
    ("in question 4 tp and pp both divide the states.",
     but(lambda a, s, p, layers, n, m: [*a, *[(plan, 18 * p / plan["pp"]) for plan, _ in s]])),
]  # fmt: skip


def strictly(*zeros):
    """Return the truth, but answers with these stages of ZeRO do not fit if they fit exactly."""

    def mistaken(parameters, layers, memory, gpus, machine=8):
        answers = list_dp_plans(parameters, layers, gpus) + list_tp_plans(
            parameters, layers, gpus, machine
        )
        return first_that_fits(
            [(plan, nbytes + 1e-6 * (plan["zero"] in zeros)) for plan, nbytes in answers], memory
        )

    return mistaken


def assume_machines_of_4(parameters, layers, memory, gpus, machine=4):
    return truth(parameters, layers, memory, gpus, machine)


ALL_MISTAKES = [
    *(("what fits exactly, fits.", strictly(*zeros)) for zeros in ((0,), (2,), (3,), (0, 2, 3))),
    *MISTAKES,
    ("without another word, a machine has 8 GPUs.", assume_machines_of_4),
]
