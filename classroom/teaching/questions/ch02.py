"""Chapter 02: what collectives return, send and cost."""

from ..collective_simulation import simulate_chain, simulate_ring, simulate_ring_pass, simulate_tree
from ..question import Question


def file_in_two_ways(ranks, megabytes, speed):
    one = sum(megabytes / speed for _ in range(1, ranks))
    return {"one": one, "tree": simulate_tree(ranks) * megabytes / speed}


def chain_played(ranks, megabytes, speed, chunks):
    turn = megabytes / chunks / speed
    return {"whole": simulate_chain(ranks, 1) * megabytes / speed,
            "chain": simulate_chain(ranks, chunks) * turn}  # fmt: skip


def ring_played(ranks, megabytes):
    played = simulate_ring(ranks, megabytes)
    return {name: played[name] for name in ("sent", "messages", "total")}


def star_and_ring(ranks, megabytes, speed):
    one_way = sum(megabytes / speed for _ in range(ranks - 1))
    ring = simulate_ring(ranks, megabytes, bandwidth=speed)["seconds"]
    return {"star": one_way + one_way, "ring": ring}


def complete_chunk(ranks, rank):
    """Add as the question says, until one chunk has the summands of all ranks."""
    held = [[{r} for _ in range(ranks)] for r in range(ranks)]
    for step in range(ranks - 1):
        moving = [(r, (r - step) % ranks, held[r][(r - step) % ranks]) for r in range(ranks)]
        for r, chunk, summands in [(r, chunk, set(s)) for r, chunk, s in moving]:
            held[(r + 1) % ranks][chunk] |= summands
    (complete,) = [chunk for chunk in range(ranks) if len(held[rank][chunk]) == ranks]
    return {"chunk": complete}


def reduce_scatter_bytes(ranks, megabytes):
    sliced, book = simulate_ring(ranks, megabytes)["sent"], simulate_ring_pass(ranks, megabytes)
    return {"sliced": sliced, "book": book}


def simulate_all_to_all(ranks, rank):
    table = [[10 * source + target for target in range(ranks)] for source in range(ranks)]
    column = list(zip(*table))[rank]
    return {"first": column[0], "last": column[-1],
            "share": 100 * sum(source != rank for source in range(ranks)) / ranks}  # fmt: skip


def seconds_played(ranks, micros, small, large):
    latency, bandwidth = micros * 1e-6, 1e10

    def tree(nbytes):
        return 2 * sum(latency + nbytes / bandwidth for _ in range(simulate_tree(ranks)))

    found = {}
    for name, nbytes in {"small": 1e3 * small, "large": 1e6 * large}.items():
        ring = simulate_ring(ranks, nbytes, latency, bandwidth)["seconds"]
        found |= {f"ring_{name}": 1e3 * ring, f"tree_{name}": 1e3 * tree(nbytes)}
    return found


def seconds_on_paper(ranks, micros, small, large):
    latency, bandwidth, rounds = micros * 1e-6, 1e10, (ranks - 1).bit_length()

    def both(nbytes):
        return (2 * (ranks - 1) * (latency + nbytes / ranks / bandwidth),
                2 * rounds * (latency + nbytes / bandwidth))  # fmt: skip

    (a, b), (c, d) = both(1e3 * small), both(1e6 * large)
    names = "ring_small", "tree_small", "ring_large", "tree_large"
    return {name: 1e3 * number for name, number in zip(names, (a, b, c, d))}


def bisect_crossover(ranks, micros):
    """Halve an interval until ring and tree take equally long."""
    latency, bandwidth = micros * 1e-6, 1e10
    low, high = 1.0, 1e12
    for _ in range(40):
        middle = (low * high) ** 0.5
        ring = simulate_ring(ranks, middle, latency, bandwidth)["seconds"]
        tree = 2 * simulate_tree(ranks) * (latency + middle / bandwidth)
        low, high = (middle, high) if ring > tree else (low, middle)
    return {"megabytes": low / 1e6}


def crossover_on_paper(ranks, micros):
    rounds = (ranks - 1).bit_length()
    saved_messages = 2 * (ranks - 1) - 2 * rounds
    saved_bytes = 2 * rounds - 2 * (ranks - 1) / ranks
    return {"megabytes": saved_messages * micros * 1e-6 * 1e10 / saved_bytes / 1e6}


def calls_played(calls, micros):
    latency, bandwidth = micros * 1e-6, 1e9
    many = sum(simulate_ring(4, 4096, latency, bandwidth)["seconds"] for _ in range(calls))
    once = simulate_ring(4, calls * 4096, latency, bandwidth)["seconds"]
    return {"many": 1e3 * many, "once": 1e3 * once}


def links_that_leave(order, machine_of, n):
    """Count the bytes out of machine 0 in a ring all-reduce of 1, link by link."""
    links = zip(order, order[1:] + order[:1])
    each = simulate_ring(n)["sent"]
    return sum(each for a, b in links if machine_of(a) == 0 != machine_of(b))


def two_levels(local, megabytes):
    n = 2 * local
    neighbours = list(range(n))
    across = [rank for pair in zip(range(local), range(local, n)) for rank in pair]
    chunk = megabytes / local  # each rank of a machine takes its chunk to the other machine
    levels = sum(simulate_ring(2, chunk)["sent"] for _ in range(local))
    return {"flat": megabytes * links_that_leave(neighbours, lambda r: r // local, n),
            "worst": megabytes * links_that_leave(across, lambda r: r // local, n),
            "levels": levels}  # fmt: skip


QUESTIONS = [
    Question(
        "2.1", "02b", 1, 4,
        "One computer has a file of {megabytes} MB, and {ranks} computers shall have it in the "
        "end, this one included. Each can send {speed} MB/s, to one other at a time. How long "
        "does it take if the first one sends it to the others one after another? How long in a "
        "tree, in which everybody who has the whole file passes it on?",
        "{one:g} s one after another, {tree:g} s in a tree.",
        "One after another: {ranks} − 1 sendings. In a tree the number of those who have the "
        "file doubles in each round.",
        given={"ranks": (16, 8, 20), "megabytes": (6, 10), "speed": (2, 4)},
        solve=lambda ranks, megabytes, speed: {
            "one": (ranks - 1) * megabytes / speed,
            "tree": (ranks - 1).bit_length() * megabytes / speed},
        again=file_in_two_ways,
        stated={"one": 45, "tree": 12},
    ),
    Question(
        "2.2", "02b", 2, 6,
        "{ranks} computers stand in a chain. The first one has {megabytes} MB; each passes on "
        "what it gets to the next one, at {speed} MB/s, and can send and receive at the same "
        "time. How long until the last one has everything, if each passes on the whole file once "
        "it has it? How long if the file travels in {chunks} chunks of equal size?",
        "{whole:g} s as a whole, {chain:g} s in chunks.",
        "As a whole there are {ranks} − 1 sendings after each other. In chunks, the last one gets "
        "its first chunk after {ranks} − 1 turns, and then one in each turn: {ranks} − 1 + "
        "{chunks} − 1 turns of {megabytes} / ({chunks} × {speed}) s.",
        given={"ranks": (8, 16), "megabytes": (10, 20), "speed": (2, 5), "chunks": (50, 100)},
        solve=lambda ranks, megabytes, speed, chunks: {
            "whole": (ranks - 1) * megabytes / speed,
            "chain": (ranks + chunks - 2) * megabytes / chunks / speed},
        again=chain_played,
        stated={"whole": 35, "chain": 5.6},
    ),
    Question(
        "2.3", "02c", 2, 4,
        "A ring all-reduce sums a tensor of {megabytes} MB on {ranks} ranks. How many MB does "
        "each rank send, in how many messages? How many MB do all ranks send together?",
        "{sent:g} MB in {messages:g} messages; together {total:g} MB.",
        "Each rank sends 2 × ({ranks} − 1) messages of {megabytes} / {ranks} MB. Half of them "
        "add, half of them hand out the sums. The total over all ranks is 2 × ({ranks} − 1) "
        "tensors.",
        given={"ranks": (5, 8, 16), "megabytes": (40, 100)},
        solve=lambda ranks, megabytes: {
            "sent": 2 * (ranks - 1) / ranks * megabytes, "messages": 2 * (ranks - 1),
            "total": 2 * (ranks - 1) * megabytes},
        again=ring_played,
        stated={"sent": 64, "messages": 8, "total": 320},
    ),
    Question(
        "2.4", "02c", 2, 5,
        "{ranks} ranks sum a tensor of {megabytes} MB. Every rank has a link of {speed} MB/s in "
        "each direction; latency and adding take no time. In a star, all others send their "
        "tensor to rank 0, and when it has all of them, it sends the sum back to each. How long "
        "does the star take, and how long a ring all-reduce?",
        "The star takes {star:g} s, the ring {ring:g} s.",
        "Rank 0's link carries {ranks} − 1 tensors in, and then as many out. In the ring every "
        "link carries 2 × ({ranks} − 1) / {ranks} tensors, all at the same time.",
        given={"ranks": (8, 16), "megabytes": (20, 50), "speed": (10, 100)},
        solve=lambda ranks, megabytes, speed: {
            "star": 2 * (ranks - 1) * megabytes / speed,
            "ring": 2 * (ranks - 1) / ranks * megabytes / speed},
        again=star_and_ring,
        stated={"star": 28, "ring": 3.5},
    ),
    Question(
        "2.5", "02c", 3, 5,
        "In the adding half of a ring with {ranks} ranks, in step s = 0, 1, …, {ranks} − 2, rank "
        "r sends chunk (r − s) mod {ranks} to rank r + 1, which adds it to its own. Which chunk "
        "is complete on rank {rank} afterwards?",
        "Chunk {chunk:g}.",
        "In its last step, rank r receives what rank r − 1 sends: chunk (r − 1 − ({ranks} − 2)) "
        "mod {ranks} = (r + 1) mod {ranks}. It has passed through everybody else before.",
        given={"ranks": (6, 5, 8), "rank": (4, 2)},
        solve=lambda ranks, rank: {"chunk": (rank + 1) % ranks}, again=complete_chunk,
        stated={"chunk": 5},
    ),
    Question(
        "2.6", "02d", 2, 5,
        "A backend carries out reduce_scatter as a ring all-reduce of the whole tensor, of which "
        "each rank keeps its slice. (In this course, Gloo was found to send as many bytes as "
        "that.) The tensor has {megabytes} MB, on {ranks} ranks. How many MB does each rank send? "
        "How many would it send in a ring that only adds?",
        "{sliced:g} MB, where {book:g} MB would do.",
        "The all-reduce sends 2 × ({ranks} − 1) / {ranks} of the tensor. The reduce-scatter is "
        "only its first half.",
        given={"ranks": (4, 8), "megabytes": (60, 100)},
        solve=lambda ranks, megabytes: {
            "sliced": 2 * (ranks - 1) / ranks * megabytes,
            "book": (ranks - 1) / ranks * megabytes},
        again=reduce_scatter_bytes,
        stated={"sliced": 90, "book": 45},
    ),
    Question(
        "2.7", "02d", 1, 3,
        "On each of {ranks} ranks, rank i has the list [10i, 10i + 1, …, 10i + {ranks} − 1]. What "
        "are the first and the last number on rank {rank} after an all-to-all of single numbers? "
        "Which share of its list has each rank sent to other ranks?",
        "{first:g} and {last:g}; {share:g} % went to other ranks.",
        "Rank {rank} gets entry {rank} of everybody's list, in the order of the ranks: an "
        "all-to-all transposes. Only its own entry stays on a rank.",
        given={"ranks": (4, 8, 5), "rank": (2, 3)},
        solve=lambda ranks, rank: {
            "first": rank, "last": 10 * (ranks - 1) + rank, "share": 100 * (ranks - 1) / ranks},
        again=simulate_all_to_all,
        stated={"first": 2, "last": 32, "share": 75},
    ),
    Question(
        "2.8", "02e", 3, 8,
        "A message takes {micros} µs, plus its bytes divided by 10 GB/s. {ranks} ranks sum a "
        "tensor, in a ring, or in a tree up and a tree down (whole tensors in each message). "
        "How long does each take for {small} kB, and for {large} MB?",
        "{small} kB: ring {ring_small:.4g} ms, trees {tree_small:.4g} ms. {large} MB: ring "
        "{ring_large:.4g} ms, trees {tree_large:.4g} ms.",
        "The ring has 2 × ({ranks} − 1) messages of 1/{ranks} of the tensor after each other, "
        "the trees 2 × log2({ranks}), rounded up, of the whole tensor. Few messages win when "
        "latency counts, few bytes when bandwidth counts.",
        given={"ranks": (16, 32), "micros": (50, 20), "small": (8, 40), "large": (40, 100)},
        solve=seconds_on_paper, again=seconds_played,
        stated={"ring_small": 1.5015, "tree_small": 0.4064, "ring_large": 9.0,
                "tree_large": 32.4},
    ),
    Question(
        "2.9", "02e", 3, 8,
        "A message takes {micros} µs plus its bytes divided by 10 GB/s. From which "
        "size of a tensor on is a ring all-reduce on {ranks} ranks faster than a tree up and a "
        "tree down?",
        "From {megabytes:.3g} MB on.",
        "Set 2(n − 1)(α + X/(nB)) equal to 2⌈log2 n⌉(α + X/B), and solve for X: the ring has "
        "2(n − 1) − 2⌈log2 n⌉ more latencies, and the trees carry 2⌈log2 n⌉ − 2(n − 1)/n more "
        "tensors.",
        given={"ranks": (16, 24), "micros": (50, 20)},
        solve=crossover_on_paper, again=bisect_crossover,
        stated={"megabytes": 1.79592},
    ),
    Question(
        "2.10", "02f", 2, 5,
        "{calls} gradients of 4,096 bytes each are summed on 4 ranks by rings, one after another. "
        "A message takes {micros} µs plus its bytes divided by 1 GB/s. How long do the {calls} "
        "calls take? How long does one call take for all of them in one flat tensor?",
        "{many:.4g} ms one by one, {once:.4g} ms together.",
        "Each call has 6 messages after each other. {calls} calls pay {calls} × 6 latencies, one "
        "call pays 6. The bytes are the same.",
        given={"calls": (512, 256), "micros": (20, 50)},
        solve=lambda calls, micros: {
            "many": 1e3 * calls * 6 * (micros * 1e-6 + 1024 / 1e9),
            "once": 1e3 * 6 * (micros * 1e-6 + calls * 1024 / 1e9)},
        again=calls_played,
        stated={"many": 64.5857, "once": 3.26573},
    ),
    Question(
        "2.11", "02g", 3, 8,
        "Two machines have {local} ranks each. A tensor of {megabytes} MB is summed over all "
        "ranks. How many MB leave a machine in a ring that visits one machine after the other? "
        "In a ring that changes the machine at every step? And in two levels: a reduce-scatter "
        "inside each machine, an all-reduce of each chunk with the rank of the other machine "
        "that has the same chunk, and an all-gather inside?",
        "{flat:g} MB, {worst:g} MB, and {levels:g} MB.",
        "Each link of a ring carries 2(n − 1)/n tensors, with n = 2 × {local}. One link leaves a "
        "machine in the first ring, {local} in the second. In two levels, {local} chunks of "
        "1/{local} tensor are summed by two ranks each, which sends one chunk's size out for "
        "each: one tensor.",
        given={"local": (4, 8, 2), "megabytes": (40, 100)},
        solve=lambda local, megabytes: {
            "flat": (2 * local - 1) / local * megabytes,
            "worst": (2 * local - 1) * megabytes, "levels": float(megabytes)},
        again=two_levels,
        stated={"flat": 70, "worst": 280, "levels": 40},
    ),
    Question(
        "2.12", "02", 2, 4,
        "Two ranks each call `dist.send(x, other)` and then `dist.recv(y, other)`, and both hang "
        "if x is large. Explain why, and give two remedies.",
        "Both wait in send until the other one receives, which it does only afterwards. Remedies: "
        "one of them receives first; or both use isend or irecv (or batch_isend_irecv) and wait "
        "for both at the end.",
        "A blocking send may return only when the message has been taken over, and no buffer is "
        "large enough for every message. A program that is right does not depend on buffers.",
    ),
]  # fmt: skip
