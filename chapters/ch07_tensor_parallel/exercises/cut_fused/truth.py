"""The right results, and the results of known mistakes."""

import torch

from .cases import labels, size_of


def rows_of_rank(weight, heads, kv_heads, rank, n):
    """Return a rank's rows: row by row, those whose head is in the rank's 1/n of the heads."""
    of_row = labels(heads, kv_heads, size_of(weight, heads, kv_heads))
    return weight[[row for row, (_, head, of) in enumerate(of_row) if head * n // of == rank]]


def sections(w, heads, kv_heads):
    size = size_of(w, heads, kv_heads)
    return w.split([heads * size, kv_heads * size, kv_heads * size])


def interleave_heads(w, heads, kv, rank, n):
    parts = [x.chunk(n)[rank].view(kv // n, -1, w.shape[1]) for x in sections(w, heads, kv)]
    return torch.cat(parts, dim=1).flatten(0, 1)


def every_nth_head(w, heads, kv, rank, n):
    heads_of = [x.view(-1, size_of(w, heads, kv), w.shape[1]) for x in sections(w, heads, kv)]
    return torch.cat([x[rank::n].flatten(0, 1) for x in heads_of])


def cut_each_section(part):
    """Return a wrong answer that takes part(section, rank, n) of each section."""
    return lambda w, heads, kv, rank, n: torch.cat(
        [part(x, rank, n) for x in sections(w, heads, kv)]
    )


OTHER_RANK = "these are another rank's rows: rank 0 has the first ones of each section"

MISTAKES = [
    ("the matrix is cut as if it were one. But first come all queries, then all keys, then all "
     "values: so one rank has queries without their keys, another keys without queries. Cut "
     "each of the three", lambda w, heads, kv, rank, n: w.tensor_split(n)[rank]),
    ("three equal sections are taken, but there are fewer keys and values than queries: heads, "
     "kv_heads and kv_heads heads", lambda w, heads, kv, rank, n:
         torch.cat([part.tensor_split(n)[rank] for part in w.tensor_split(3)])),
    ("every rank has all keys and values: a rank needs those of its own queries, and n divides "
     "kv_heads", lambda w, heads, kv, rank, n:
         torch.cat([sections(w, heads, kv)[0].chunk(n)[rank], *sections(w, heads, kv)[1:]])),
    ("the keys and values are missing: each rank needs those of its queries, too",
     lambda w, heads, kv, rank, n: sections(w, heads, kv)[0].chunk(n)[rank]),
    ("the right rows, ordered by heads: a query, its key, its value. That is the course's own "
     "order; here, all queries come first, then the keys, then the values", interleave_heads),
    ("these are every n-th of the heads. A rank has neighbours, the first ranks the first "
     "ones: heads / kv_heads queries in a row share a key, and that one has to be on their "
     "rank", every_nth_head),
    ("every n-th row is taken: this tears the heads apart. The rows of a head stay together, "
     "and neighbouring heads, too", cut_each_section(lambda x, rank, n: x[rank::n])),
    ("the columns are cut, and these are the inputs. What belongs to a head are rows: "
     "nn.Linear has its outputs there",
     lambda w, heads, kv, rank, n: w.chunk(n, 1)[rank]),
    ("one matrix is asked: torch.cat puts the three sections together",
     lambda w, heads, kv, rank, n: [x.chunk(n)[rank].tolist() for x in sections(w, heads, kv)]),
    (OTHER_RANK, cut_each_section(lambda x, rank, n: x.chunk(n)[0])),
    (OTHER_RANK, cut_each_section(lambda x, rank, n: x.chunk(n)[rank - 1])),
    (OTHER_RANK, cut_each_section(lambda x, rank, n: x.chunk(n)[n - 1 - rank])),
]  # fmt: skip
