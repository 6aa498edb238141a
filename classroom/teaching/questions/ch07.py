"""Chapter 07: a layer cut over ranks."""

import torch
import torch.nn.functional as F

from ..collective_simulation import bytes_of, empty, simulate_ring, simulate_ring_pass
from ..question import Question


def shapes_cut(rows, columns, ranks):
    weight = empty(rows, columns)
    by_columns, by_rows = weight.chunk(ranks, dim=1)[0], weight.chunk(ranks, dim=0)[0]
    x = empty(5, rows)
    return {"wide": by_columns.shape[1], "tall": by_rows.shape[0],
            "out_columns": (x @ by_columns).shape[1],
            "out_rows": (x[:, :by_rows.shape[0]] @ by_rows).shape[1]}  # fmt: skip


def block_sums(samples, context, width, ranks, layers):
    activation = bytes_of([empty(samples, context, width, dtype=torch.bfloat16)]) / 1e6
    sums = [simulate_ring(ranks, activation)["sent"]
            for _ in range(layers) for _ in ("attention", "MLP") for _ in "FB"]  # fmt: skip
    return {"each": activation, "all": sum(sums) / 1e3}


def bias_added(ranks, bias):
    torch.manual_seed(0)
    x, weight = (torch.randint(-3, 4, shape).double() for shape in ((2, 4 * ranks), (4 * ranks, 3)))
    parts = [a @ b + bias for a, b in zip(x.chunk(ranks, dim=1), weight.chunk(ranks, dim=0))]
    difference = sum(parts) - (x @ weight + bias)
    return {"off": difference.mean().item()}


def relu_too_early(first, second):
    a, b = torch.tensor(float(first)), torch.tensor(float(second))
    return {"right": F.relu(a + b).item(), "early": (F.relu(a) + F.relu(b)).item()}


def loss_exchanged(tokens, vocabulary, ranks):
    logits = simulate_ring_pass(ranks, bytes_of([empty(tokens, vocabulary)])) / 1e6
    three = [empty(tokens) for _ in ("maximum", "sum of exponentials", "target's logit")]
    sums = sum(simulate_ring(ranks, bytes_of([x]))["sent"] for x in three)
    return {"gathered": logits, "three": sums / 1e6}


def heads_held(queries, keys, ranks):
    owner = {head: head * ranks // queries for head in range(queries)}
    needed = [{head * keys // queries for head in range(queries) if owner[head] == rank}
              for rank in range(ranks)]  # fmt: skip
    return {"queries": list(owner.values()).count(0), "keys": len(needed[0]),
            "copies": sum(0 in heads for heads in needed)}  # fmt: skip


INPUTS, OUTPUTS, INSIDE = 2, 2, 12  # tensors of a block, by where they are


def activations_by_way(ranks):
    def total(**cut):
        amounts = {"inputs": INPUTS, "outputs": OUTPUTS, "inside": INSIDE}
        return sum(1 / ranks if cut.get(name) else 1.0
                   for name, amount in amounts.items() for _ in range(amount))  # fmt: skip

    return {"tensor": total(inside=True), "sequence": total(inside=True, inputs=True),
            "again": total(inside=True, inputs=True, outputs=True)}  # fmt: skip


def bytes_by_way(ranks):
    tensor = sum(simulate_ring(ranks)["sent"] for _ in ("attention", "MLP") for _ in "FB")
    borders = 2 * 2 * ["gather", "scatter"]  # two regions, forward and backward
    sequence = sum(simulate_ring_pass(ranks) for _ in borders)
    again = sequence + sum(simulate_ring_pass(ranks) for _ in ("attention", "MLP"))
    return {"tensor": tensor, "sequence": sequence, "more": 100 * (again / sequence - 1)}


def simulate_slowdown(compute, megabytes, ranks, fast, slow):
    times = {}
    for name, speed in {"inside": fast, "between": slow}.items():
        ring = simulate_ring(ranks, megabytes / 1e3, bandwidth=speed)["seconds"]
        times[name] = compute + sum(1e3 * ring for _ in range(4))
    return times | {"ratio": times["between"] / times["inside"]}


def slowdown_on_paper(compute, megabytes, ranks, fast, slow):
    megabytes_sent = 4 * 2 * (ranks - 1) / ranks * megabytes
    inside, between = (compute + megabytes_sent / speed for speed in (fast, slow))
    return {"inside": inside, "between": between, "ratio": between / inside}


QUESTIONS = [
    Question(
        "7.1", "07", 1, 4,
        "Y = XA, where A has {rows:,} rows and {columns:,} columns, is computed on {ranks} ranks. "
        "How many columns of A does a rank have if A is cut by columns, and how many columns does "
        "its result have? How many rows of A does it have if A is cut by rows, and how many "
        "columns does its result have? What has to be done with the results in each case?",
        "By columns: {wide:,} columns; the result has {out_columns:,} columns, and the results "
        "stand side by side. By rows: {tall:,} rows; the result has {out_rows:,} columns, and the "
        "results are added up.",
        "A column of Y needs all of X and one column of A. Cut by rows, a rank needs only its "
        "columns of X, and has a summand of all of Y.",
        given={"rows": (4096, 8192), "columns": (16384, 32768), "ranks": (8, 4)},
        solve=lambda rows, columns, ranks: {
            "wide": columns // ranks, "tall": rows // ranks, "out_columns": columns // ranks,
            "out_rows": columns},
        again=shapes_cut,
        stated={"wide": 2048, "tall": 512, "out_columns": 2048, "out_rows": 16384},
    ),
    Question(
        "7.2", "07b", 2, 6,
        "A transformer of {layers} layers runs tensor parallel on {ranks} ranks, in column-row "
        "pairs, without sequence parallelism. A micro-batch has {samples} samples of {context:,} "
        "tokens, the width is {width:,}, and activations have 16 bits. How many MB has the tensor "
        "that one all-reduce sums? How many GB does a rank send for one forward and backward, over "
        "rings?",
        "{each:.4g} MB; {all:.4g} GB.",
        "Each layer has two pairs, attention and MLP. Each pair has one all-reduce in the forward "
        "and one in the backward: 4 × {layers} sums of {each:.4g} MB, of which a rank sends "
        "2 × ({ranks} − 1)/{ranks} each.",
        given={"samples": (4, 2), "context": (2048, 4096), "width": (4096, 8192), "ranks": (8, 4),
               "layers": (32,)},
        solve=lambda samples, context, width, ranks, layers: {
            "each": 2 * samples * context * width / 1e6,
            "all": 4 * layers * 2 * (ranks - 1) / ranks * 2 * samples * context * width / 1e9},
        again=block_sums,
        stated={"each": 67.1089, "all": 15.0324},
    ),
    Question(
        "7.3", "07b", 2, 4,
        "In a row-parallel layer on {ranks} ranks, each rank adds the whole bias to its own "
        "result, and then the results are summed. The bias is {bias} for every output. By how much "
        "is each output too large, and where does the bias belong?",
        "By {off:g}. The bias is added once, after the sum.",
        "The sum has the bias {ranks} times.",
        given={"ranks": (4, 8, 3), "bias": (0.5, 2.0)},
        solve=lambda ranks, bias: {"off": (ranks - 1) * bias}, again=bias_added,
        stated={"off": 1.5},
    ),
    Question(
        "7.4", "07", 2, 5,
        "A first layer is cut by rows on two ranks. For one output, rank 0 has the summand {first} "
        "and rank 1 has {second}. What is ReLU of this output? What comes out if each rank applies "
        "ReLU before the sum? Which cut of the first layer makes a sum before ReLU unnecessary, "
        "and why?",
        "{right:g}; too early it gives {early:g}. A cut by columns: then every rank has whole "
        "outputs, and can apply ReLU to them.",
        "ReLU of a sum is not the sum of ReLUs. The same holds for GELU.",
        given={"first": (3, 7), "second": (-5, -2)},
        solve=lambda first, second: {"right": max(0.0, first + second),
                                     "early": max(0.0, first) + max(0.0, second)},
        again=relu_too_early,
        stated={"right": 0, "early": 3},
    ),
    Question(
        "7.5", "07c", 3, 6,
        "The logits of {tokens:,} tokens over a vocabulary of {vocabulary:,} are float32, and cut "
        "by tokens of the vocabulary over {ranks} ranks. How many MB does a rank send if all "
        "logits are gathered on every rank (by a ring)? How many, if the cross-entropy is computed "
        "from the parts, with three all-reduces of one float32 number for each token?",
        "{gathered:,.4g} MB, or {three:.4g} MB.",
        "A maximum, a sum of exponentials and the logit of the right token are enough for "
        "the loss. Gathering sends ({ranks} − 1)/{ranks} of all logits.",
        given={"tokens": (8192, 4096), "vocabulary": (128000, 64000), "ranks": (4, 8)},
        solve=lambda tokens, vocabulary, ranks: {
            "gathered": (ranks - 1) / ranks * 4 * tokens * vocabulary / 1e6,
            "three": 3 * 2 * (ranks - 1) / ranks * 4 * tokens / 1e6},
        again=loss_exchanged,
        stated={"gathered": 3145.73, "three": 0.147456},
    ),
    Question(
        "7.6", "07c", 2, 5,
        "Attention has {queries} heads of queries and {keys} heads of keys and values; each of "
        "these serves equally many of the former, in order. It is cut by heads over {ranks} ranks. "
        "How many heads of queries has a rank, how many of keys, and how many ranks have the same "
        "head of keys? What follows for its gradient?",
        "{queries_of:g} heads of queries and {keys_of:g} of keys; {copies:g} ranks have the same "
        "one. Each of them has a part of its gradient: the parts are added up.",
        "{queries} / {ranks} heads of queries need one head of keys. It is copied, as there are "
        "more ranks than heads of keys.",
        given={"queries": (32, 64), "keys": (8, 4), "ranks": (16, 32)},
        solve=lambda queries, keys, ranks: {
            "queries_of": queries // ranks, "keys_of": 1, "copies": ranks // keys},
        again=lambda queries, keys, ranks: dict(
            zip(("queries_of", "keys_of", "copies"), heads_held(queries, keys, ranks).values())),
        stated={"queries_of": 2, "keys_of": 1, "copies": 2},
    ),
    Question(
        "7.7", "07e", 3, 6,
        "For its backward, a block keeps 16 tensors of the size a: the inputs of its two norms "
        "(2), their outputs (2), and 12 inside of attention and MLP. How many a does a rank of "
        "{ranks} keep in tensor parallelism; in sequence parallelism, where outputs of norms are "
        "kept gathered; and if these are kept in pieces and gathered again in the backward?",
        "{tensor:.4g} a, {sequence:.4g} a, and {again:.4g} a.",
        "Tensor parallelism cuts the inside: 4 + 12/{ranks}. Sequence parallelism cuts the inputs "
        "of the norms, too: 2 + 14/{ranks}. Gathering again cuts everything: 16/{ranks}.",
        given={"ranks": (8, 4, 2)},
        solve=lambda ranks: {"tensor": 4 + 12 / ranks, "sequence": 2 + 14 / ranks,
                             "again": 16 / ranks},
        again=activations_by_way,
        stated={"tensor": 5.5, "sequence": 3.75, "again": 2},
    ),
    Question(
        "7.8", "07e", 2, 5,
        "Count the bytes that a rank of {ranks} sends for forward and backward of one transformer "
        "block, in units of one activation tensor, over rings: in tensor parallelism, and in "
        "sequence parallelism. How many percent more are they if the inputs of both regions are "
        "gathered once more in the backward?",
        "{tensor:g} in tensor parallelism, and {sequence:g} in sequence parallelism: as many. "
        "Gathering again sends {more:g} % more.",
        "Four all-reduces become four all-gathers and four reduce-scatters. An all-reduce is one "
        "of each. Gathering again adds two to eight.",
        given={"ranks": (4, 8, 2)},
        solve=lambda ranks: {"tensor": 8 * (ranks - 1) / ranks,
                             "sequence": 8 * (ranks - 1) / ranks, "more": 25.0},
        again=bytes_by_way,
        stated={"tensor": 6, "sequence": 6, "more": 25},
    ),
    Question(
        "7.9", "07g", 2, 6,
        "A block computes for {compute} ms on each of {ranks} ranks, and makes 4 ring all-reduces "
        "of {megabytes} MB; nothing overlaps, and latency does not count. A link carries {fast} "
        "GB/s inside of a machine and {slow} GB/s between machines, in each direction. How long "
        "does the block take inside of a machine, how long if all links are between machines, and "
        "what is the ratio?",
        "{inside:.4g} ms and {between:.4g} ms: {ratio:.3g} times as long.",
        "A rank sends 4 × 2 × ({ranks} − 1)/{ranks} × {megabytes} MB. Computing is the same, so "
        "the ratio is smaller than that of the links.",
        given={"compute": (2, 4), "megabytes": (64, 128), "ranks": (8,), "fast": (400, 200),
               "slow": (50, 25)},
        solve=slowdown_on_paper, again=simulate_slowdown,
        stated={"inside": 3.12, "between": 10.96, "ratio": 3.51282},
    ),
    Question(
        "7.10", "07d", 3, 5,
        "In a tensor-parallel block, dropout acts in two places: on the residual stream after the "
        "row-parallel layer's sum, and on the attention weights of a rank's own heads. For each "
        "place, should ranks draw the same random numbers or their own? Why?",
        "On the residual stream the same ones, on the attention weights their own.",
        "The residual stream is one tensor of which every rank has a copy: with different masks "
        "the copies would no longer be equal. The heads of different ranks are different heads; "
        "with the same numbers, their masks would repeat each other.",
    ),
]  # fmt: skip
