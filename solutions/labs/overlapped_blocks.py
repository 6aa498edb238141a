# Built from chapters/ch08_pipeline_parallel/labs/overlapped_blocks.py by `make build`.
"""A forward and a backward of layers with experts as one block: computing next to messages.

python labs/overlapped_blocks.py

A layer's forward is attention, dispatch of the tokens to their experts, MLP (the experts), and
combine, which brings the results back. Dispatch and combine are all-to-alls. The backward goes the
other way; of attention and MLP it has two halves, for the inputs and for the weights.
"""

from typing import NamedTuple

from zero_bubbles import join_pairs, rows_and_stages


class Piece(NamedTuple):
    """A piece of a chunk's work.

    name    such as "MLP"
    kind    "F" for a forward, "I" and "W" for the halves of a backward
    sends   whether it is an all-to-all, which occupies the network and not the processor
    after   the index in its chunk of the piece whose result it needs, or None
    """

    name: str
    kind: str
    sends: bool
    after: int | None


def forward_pieces(layers) -> list[Piece]:
    names = ["attention", "dispatch", "MLP", "combine"] * layers
    return [
        Piece(name, "F", name in ("dispatch", "combine"), number - 1 if number else None)
        for number, name in enumerate(names)
    ]


def backward_pieces(layers, kinds="IW") -> list[Piece]:
    """Return the pieces of a backward, from the last layer to the first.

    Other pieces wait for the gradients of inputs and for messages, and none for those of weights.

    kinds  "IW" for a whole backward, "I" for its half for the inputs, which has all messages
    """
    pieces, before = [], None
    for _ in range(layers):
        for name, sends in (("combine", True), ("MLP", False), ("dispatch", True),
                            ("attention", False)):  # fmt: skip
            pieces.append(Piece(name, "I", sends, before))
            before = len(pieces) - 1
            if not sends and "W" in kinds:
                pieces.append(Piece(name, "W", False, before))
    return pieces


def run_pieces(chunks, message=1.0) -> list[tuple]:
    """Return (chunk, piece, begin, end) of all pieces, in their order.

    One piece computes at a time, and one sends. Of those that could begin at once, gradients of
    weights come last, and the chunk goes first that has most left to do.

    chunks   lists of pieces, such as one of a forward and one of a backward
    message  the time of an all-to-all; each piece of computing takes 1
    """
    ends = [{} for _ in chunks]
    free, done = {True: 0.0, False: 0.0}, []
    while len(done) < sum(map(len, chunks)):
        choices = []
        for chunk, pieces in enumerate(chunks):
            for number, piece in enumerate(pieces):
                waits = piece.after is not None and piece.after not in ends[chunk]
                if number not in ends[chunk] and not waits:
                    begin = max(free[piece.sends], ends[chunk].get(piece.after, 0.0))
                    left = len(pieces) - len(ends[chunk])
                    choices.append((begin, piece.kind == "W", -left, chunk, number))
        begin, _, _, chunk, number = min(choices)
        piece = chunks[chunk][number]
        end = begin + (message if piece.sends else 1.0)
        free[piece.sends] = ends[chunk][number] = end
        done.append((chunk, piece, begin, end))
    return done


def length_of(run) -> float:
    return max(end for _, _, _, end in run)


def times_of_blocks(layers, message) -> dict[str, float]:
    """Return the times of a forward, a backward and its halves alone, and of a pair as one block.

    "B" may be shorter than "I" and "W" together, because its W run while its messages travel.
    """
    forward, backward = forward_pieces(layers), backward_pieces(layers)
    return {
        "F": length_of(run_pieces([forward], message)),
        "B": length_of(run_pieces([backward], message)),
        "I": length_of(run_pieces([backward_pieces(layers, "I")], message)),
        "W": float(sum(piece.kind == "W" for piece in backward)),
        "F&B": length_of(run_pieces([forward, backward], message)),
    }


def simulate_step(name, ranks, microbatches, times, joined=True):
    """Return the simulated timeline of DualPipe or DualPipeV, in forwards of a chunk alone.

    times   of F, B, I and W alone, and of a pair as one block, "F&B"
    joined  whether a pair runs as one block; otherwise F and B one after the other, in a block
    """
    from pedagogy_lib import simulate

    rows, stages = rows_and_stages(name, ranks, microbatches)
    shares = {kind: took / times["F"] for kind, took in times.items()}
    pair = shares.pop("F&B")
    timeline = simulate(rows, shares, unit="forwards", stages=stages)
    return join_pairs(timeline, stages, pair if joined else None)


def published_bubble(name, ranks, times) -> float:
    """Return the bubble by the formula of DeepSeek's README, in forwards of a chunk alone.

    The formula assumes that a backward takes as long as its two halves, I and W.
    """
    pairs = ranks / 2 - 1 if name == "DualPipe" else ranks - 1
    return pairs * (times["F&B"] + times["B"] - 3 * times["W"]) / times["F"]


def computing_shares(timeline, times) -> list[float]:
    """Return for each rank the share of a step in which its processor computes.

    For the rest of the time it has no action, or its action waits for an all-to-all.

    times  as simulate_step had them; computing in F and in I takes as long as in W, in B twice that
    """
    found = []
    for row in timeline.rows:
        computed = sum(2 if kind == "B" else 1 for kind, _, _ in row) * times["W"]
        found.append(computed / times["F"] / timeline.seconds)
    return found


# ---- The program ----------------------------------------------------------------------------


def main(layers=4):
    for message in (0.0, 0.75, 1.5):
        times = times_of_blocks(layers, message)
        print(f"messages of {message:g}: ", {kind: round(took, 2) for kind, took in times.items()})


if __name__ == "__main__":
    main()
