"""Chapter 09: several axes at once, experts, long contexts."""

from collections import Counter

import torch
from torch import nn

from ..collective_simulation import bytes_of, empty, simulate_ring
from ..question import Question


def locate_on_mesh(dp, pp, tp, rank):
    mesh = torch.arange(dp * pp * tp).view(dp, pp, tp)
    a, b, c = (mesh == rank).nonzero()[0].tolist()
    along = mesh[:, b, c].tolist()
    return {"dp_rank": a, "stage": b, "tp_rank": c, "first": along[0], "last": along[-1]}


def mesh_on_paper(dp, pp, tp, rank):
    first = rank % (pp * tp)
    return {"dp_rank": rank // (pp * tp), "stage": rank // tp % pp, "tp_rank": rank % tp,
            "first": first, "last": first + (dp - 1) * pp * tp}  # fmt: skip


def bubble_of_layout(world, tp, pp, batch):
    copies = len(range(0, world, tp * pp))
    microbatches = len(range(0, batch, copies))
    idle = [pp - 1, microbatches + pp - 1]
    return {"dp": copies, "microbatches": microbatches, "bubble": 100 * idle[0] / idle[1]}


def copies_averaged(billions, tp, pp, dp):
    layer_parts = [empty(1000, dtype=torch.bfloat16).chunk(tp)[0] for _ in range(pp)]
    share = bytes_of(layer_parts[:1]) / 1000 / pp
    return {"each": billions * share, "sent": simulate_ring(dp, billions * share)["sent"]}


def norm_on_mesh(a, b, whole):
    """Return a model's norm, and all ranks' together: two copies of two tensor-parallel ranks."""
    ranks = [{"cut": part, "whole": whole} for _ in range(2) for part in (a, b)]
    of_model = [("cut", part) for part in (a, b)] + [("whole", whole)]
    everybody = sum(value**2 for rank in ranks for value in rank.values())
    return {"right": sum(value**2 for _, value in of_model) ** 0.5, "wrong": everybody**0.5}


def experts_counted(width, inner, experts, chosen, layers):
    with torch.device("meta"):
        expert = [nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False),
                  nn.Linear(inner, width, bias=False)]  # fmt: skip
    numbers = sum(p.numel() for linear in expert for p in linear.parameters())
    return {"all": sum(numbers for _ in range(experts * layers)) / 1e9,
            "active": sum(numbers for _ in range(chosen * layers)) / 1e9}  # fmt: skip


def let_in(tokens, experts, chosen, busy):
    """Fill the places of the busiest expert one by one."""
    places = Counter()
    capacity = next(c for c in range(tokens) if 4 * experts * c >= 5 * tokens * chosen)
    for _ in range(busy):
        places["in" if places["in"] < capacity else "dropped"] += 1
    return {"capacity": capacity, "dropped": places["dropped"]}


def rows_exchanged(tokens, chosen, width, ranks):
    rows = empty(tokens * chosen, width, dtype=torch.bfloat16)
    away = bytes_of([piece for k, piece in enumerate(rows.chunk(ranks)) if k]) / 1e6
    return {"once": away, "all": sum(away for _ in ("there", "back") for _ in "FB")}


def work_of_ranks(ranks):
    """Count blocks of a causal mask: 1 where all pairs count, a half on the diagonal."""

    def work(mine, theirs):
        return 1.0 if theirs < mine else 0.5 if theirs == mine else 0.0

    def step_by_step(pieces_of):
        total = 0.0
        for step in range(ranks):
            total += max(sum(work(q, k) for q in pieces_of(rank)
                             for k in pieces_of((rank - step) % ranks))
                         for rank in range(ranks))  # fmt: skip
        return total

    plain = step_by_step(lambda rank: [rank])
    halves = step_by_step(lambda rank: [rank, 2 * ranks - 1 - rank])
    return {"plain": plain, "zigzag": halves / 4}  # a half piece by a half piece: a quarter


def states_on_mesh(billions, tp, pp, dp):
    mine = billions / len([(t, p) for t in range(tp) for p in range(pp)])
    kinds = {"parameters": 2, "gradients": 2, "states": 12 / len(range(dp))}
    return {"billion": mine, "bytes": sum(mine * each for each in kinds.values())}


def keys_around(samples, context, width, ranks):
    """Count MB: ring attention passes on keys and values, all-to-alls swap heads for places."""
    piece = empty(samples, context, width, dtype=torch.bfloat16).chunk(ranks, dim=1)[0]
    ring = sum(bytes_of([piece, piece]) for _ in range(ranks - 1))
    swap = sum(bytes_of(piece.chunk(ranks, dim=2)[1:]) for _ in ("q", "k", "v", "result"))
    return {"ring": ring / 1e6, "swap": swap / 1e6}


QUESTIONS = [
    Question(
        "9.1", "09", 1, 4,
        "A mesh has {dp} copies of a model (dp), {pp} stages (pp) and {tp} tensor-parallel ranks "
        "(tp). Ranks are numbered with tp varying fastest, then pp, then dp. Which coordinates has "
        "rank {rank}? Which ranks are the first and the last of its data-parallel group?",
        "dp {dp_rank:g}, stage {stage:g}, tp {tp_rank:g}. The first rank of its group is "
        "{first:g}, the last one {last:g}.",
        "rank = (dp × {pp} + stage) × {tp} + tp. A data-parallel group has the same stage and the "
        "same tp: every {pp} × {tp}th rank.",
        given={"dp": (4, 8), "pp": (4, 2), "tp": (4, 8), "rank": (29, 22, 13)},
        solve=mesh_on_paper, again=locate_on_mesh,
        stated={"dp_rank": 1, "stage": 3, "tp_rank": 1, "first": 13, "last": 61},
    ),
    Question(
        "9.2", "09c", 2, 5,
        "{world:,} GPUs train with tp = {tp} and pp = {pp}, without any other model parallelism. "
        "The global batch has {batch:,} samples, and a micro-batch one. How many copies of the "
        "model are there, how many micro-batches does each get, and how large is the bubble of "
        "1F1B, as a share of the whole?",
        "{dp:g} copies, {microbatches:g} micro-batches each, a bubble of {bubble:.3g} %.",
        "dp = world / (tp × pp): it is not free to choose. Then m = {batch:,} / dp, and the bubble "
        "is (p − 1)/(m + p − 1).",
        given={"world": (1024, 512), "tp": (8, 4), "pp": (8, 4), "batch": (1024, 2048)},
        solve=lambda world, tp, pp, batch: (lambda m: {
            "dp": world // (tp * pp), "microbatches": m, "bubble": 100 * (pp - 1) / (m + pp - 1)
        })(batch * tp * pp // world),
        again=bubble_of_layout,
        stated={"dp": 16, "microbatches": 64, "bubble": 9.85915},
    ),
    Question(
        "9.3", "09c", 2, 5,
        "A model of {billions} billion parameters runs with tp = {tp}, pp = {pp} and dp = {dp}, "
        "and is cut evenly. Gradients have 16 bits. How many GB of gradients does a rank average "
        "with its data-parallel group in a step, and how many GB does it send for that in a ring?",
        "{each:.4g} GB; it sends {sent:.5g} GB.",
        "A rank has 1/(tp × pp) of the model. The all-reduce sends 2 × ({dp} − 1)/{dp} of it.",
        given={"billions": (70, 140), "tp": (8, 4), "pp": (4, 2), "dp": (4, 8)},
        solve=lambda billions, tp, pp, dp: {
            "each": 2 * billions / (tp * pp),
            "sent": 2 * (dp - 1) / dp * 2 * billions / (tp * pp)},
        again=copies_averaged,
        stated={"each": 4.375, "sent": 6.5625},
    ),
    Question(
        "9.4", "09b", 3, 7,
        "A model runs with tp = 2 and dp = 2. After the average over copies, the cut weights have "
        "gradients of norm {a} on one tp rank and {b} on the other. Norms and biases are whole on "
        "every rank, with the same gradient of norm {whole} everywhere. What is the norm of the "
        "model's gradient? What comes out if all four ranks add the squares of all that they have?",
        "{right:.4g}. Adding everything gives {wrong:.4g}.",
        "Every number of the model counts once: cut ones are added over tp, whole ones are taken "
        "from one tp rank, and copies not at all. The root of {a}² + {b}² + {whole}².",
        given={"a": (2, 6), "b": (6, 3), "whole": (9, 2)},
        solve=lambda a, b, whole: {
            "right": (a * a + b * b + whole * whole) ** 0.5,
            "wrong": (2 * (a * a + b * b) + 4 * whole * whole) ** 0.5},
        again=norm_on_mesh,
        stated={"right": 11, "wrong": 20.0998},
    ),
    Question(
        "9.5", "09d", 2, 5,
        "Each of {layers} layers has {experts} experts, of which a token uses {chosen}. An expert "
        "has three matrices without biases, of {width:,} × {inner:,} numbers. How many billion "
        "parameters do all experts have? How many of them does one token use?",
        "{all:.4g} billion, of which a token uses {active:.4g} billion.",
        "An expert has 3 × {width:,} × {inner:,} numbers. Memory counts all experts, computing "
        "only those that are chosen.",
        given={"width": (4096, 2048), "inner": (14336, 8192), "experts": (8, 16),
               "chosen": (2,), "layers": (32, 24)},
        solve=lambda width, inner, experts, chosen, layers: {
            "all": 3 * width * inner * experts * layers / 1e9,
            "active": 3 * width * inner * chosen * layers / 1e9},
        again=experts_counted,
        stated={"all": 45.0972, "active": 11.2743},
    ),
    Question(
        "9.6", "09d", 2, 4,
        "{tokens:,} tokens choose {chosen} of {experts} experts each. An expert takes 1.25 times "
        "as many choices as it would get if all were equally popular, rounded up. How many does it "
        "take? The busiest expert is chosen {busy:,} times: how many choices are dropped there?",
        "{capacity:,} choices; {dropped:g} are dropped.",
        "1.25 × {tokens:,} × {chosen} / {experts}. What an expert has no room for passes by it on "
        "the residual connection.",
        given={"tokens": (4096, 8192), "experts": (8, 16), "chosen": (2, 1), "busy": (1500, 3000)},
        solve=lambda tokens, experts, chosen, busy: (lambda capacity: {
            "capacity": capacity, "dropped": max(0, busy - capacity)
        })(-(-5 * tokens * chosen // (4 * experts))),
        again=let_in,
        stated={"capacity": 1280, "dropped": 220},
    ),
    Question(
        "9.7", "09e", 2, 5,
        "Experts are spread over {ranks} ranks. Each rank has {tokens:,} tokens of width "
        "{width:,} in 16 bits, each of which goes to {chosen} experts, spread evenly over all "
        "ranks. How many MB does a rank send in one all-to-all, and how many in all four that a "
        "layer needs for forward and backward?",
        "{once:.4g} MB, and {all:.4g} MB in all four.",
        "{tokens:,} × {chosen} rows leave, except for 1/{ranks} of them. Rows go there and come "
        "back; in the backward their gradients do the same.",
        given={"ranks": (8, 4), "tokens": (4096, 2048), "chosen": (2,), "width": (4096, 2048)},
        solve=lambda ranks, tokens, chosen, width: {
            "once": (ranks - 1) / ranks * 2 * tokens * chosen * width / 1e6,
            "all": 4 * (ranks - 1) / ranks * 2 * tokens * chosen * width / 1e6},
        again=rows_exchanged,
        stated={"once": 58.7203, "all": 234.881},
    ),
    Question(
        "9.8", "09f", 3, 8,
        "Causal attention runs in a ring of {ranks} ranks, a step for each piece of keys. All "
        "ranks wait for the slowest one in each step. A rank that has piece r of the queries has "
        "to compute only with pieces up to r; a block on the diagonal is half a block. How long "
        "does it take, in blocks of one piece by one piece? How long if each rank has two half "
        "pieces, one from the front and its counterpart from the back (zigzag)?",
        "{plain:g} blocks in order, {zigzag:g} in zigzag.",
        "In order, in the first step all ranks have half a block; in each later one some rank has "
        "a whole block: {ranks} − 1/2. In zigzag each rank has half a block in every step: "
        "{ranks}/2.",
        given={"ranks": (8, 4, 16)},
        solve=lambda ranks: {"plain": ranks - 0.5, "zigzag": ranks / 2}, again=work_of_ranks,
        stated={"plain": 7.5, "zigzag": 4},
    ),
    Question(
        "9.9", "09g", 2, 5,
        "A model of {billions} billion parameters is cut evenly over tp = {tp} and pp = {pp}. "
        "Among dp = {dp} copies, ZeRO stage 1 cuts the optimizer's states (2 + 2 + 12 bytes for "
        "each parameter). How many billion parameters has a rank, and how many GB of parameters, "
        "gradients and states?",
        "{billion:.4g} billion; {bytes:.4g} GB.",
        "{billions} / ({tp} × {pp}) billion, with 2 + 2 + 12/{dp} bytes each.",
        given={"billions": (70, 140), "tp": (8, 4), "pp": (8, 4), "dp": (16, 8)},
        solve=lambda billions, tp, pp, dp: {
            "billion": billions / (tp * pp), "bytes": billions / (tp * pp) * (4 + 12 / dp)},
        again=states_on_mesh,
        stated={"billion": 1.09375, "bytes": 5.19531},
    ),
    Question(
        "9.10", "09", 3, 5,
        "A program makes process groups with dist.new_group and its default settings. Every rank "
        "makes only those groups that it belongs to. On 2 × 2 ranks this hangs, or mixes groups "
        "up. Why, and how should the groups be made?",
        "new_group is itself a collective of all ranks: every rank has to call it for every group, "
        "in the same order, also for groups that it is not in. Or use init_device_mesh, which does "
        "that.",
        "Ranks match calls by their order. If each skips the groups of others, the first call of "
        "one rank meets the first call of another one, which is for another group.",
    ),
    Question(
        "9.11", "09f", 3, 7,
        "{samples} sample(s) of {context:,} tokens, with keys and values of width {width:,} in "
        "16 bits, are cut by places over {ranks} ranks. How many MB does a rank send in one "
        "forward of ring attention, which passes keys and values of all pieces around? How many, "
        "if all-to-alls swap heads for places: one each for queries, keys and values, and one "
        "back for the result (all of the same width)?",
        "{ring:.4g} MB in the ring, {swap:.4g} MB with all-to-alls.",
        "A piece has {context:,}/{ranks} tokens. The ring sends keys and values of {ranks} − 1 "
        "pieces. Each all-to-all sends ({ranks} − 1)/{ranks} of one piece.",
        given={"samples": (1, 2), "context": (32768, 65536), "width": (4096, 2048),
               "ranks": (8, 4)},
        solve=lambda samples, context, width, ranks: (lambda piece: {
            "ring": 2 * (ranks - 1) * piece, "swap": 4 * (ranks - 1) / ranks * piece
        })(2 * samples * context * width / ranks / 1e6),
        again=keys_around,
        stated={"ring": 469.762, "swap": 117.441},
    ),
]  # fmt: skip
