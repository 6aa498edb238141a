"""Chapter 00's checks: right answers pass, and each wrong one is told what is wrong with it."""

import pytest

from pedagogy_lib import check, hint

RIGHT_RANKS = {
    "product": lambda node, local_rank, per_node: node * per_node + local_rank,
    "a range": lambda node, local_rank, per_node: range(node * per_node, 10**6)[local_rank],
    "all places": lambda node, local_rank, per_node: [
        (i, j) for i in range(node + 1) for j in range(per_node)
    ].index((node, local_rank)),
}
WRONG_RANKS = {
    "behind `return`": lambda node, local_rank, per_node: None,
    "several nodes": lambda node, local_rank, per_node: local_rank,
    "there are per_node, not one": lambda node, local_rank, per_node: node + local_rank,
    "number of the node": lambda node, local_rank, per_node: node,
    "first rank of the node": lambda node, local_rank, per_node: node * per_node,
    "nodes count from 0": lambda node, local_rank, per_node: (node + 1) * per_node + local_rank,
    "ranks count from 0": lambda node, local_rank, per_node: node * per_node + local_rank + 1,
    "swapped": lambda node, local_rank, per_node: local_rank * per_node + node,
}


def rejected(verdict, phrase):
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict
    return verdict.wrong.why


@pytest.mark.parametrize("style", RIGHT_RANKS)
def test_right_ranks(style):
    verdict = check("0.1", RIGHT_RANKS[style])
    assert verdict.passed, verdict
    assert verdict.lines[0] == "2 nodes with 3 processes: 0 1 2 3 4 5"


def test_wrong_ranks():
    whys = [rejected(check("0.1", wrong), phrase) for phrase, wrong in WRONG_RANKS.items()]
    assert len(set(whys)) == len(whys)


def test_an_answer_that_raises():
    verdict = check("0.1", lambda node, local_rank, per_node: node // (per_node - per_node))
    assert verdict.passed is False
    assert "ZeroDivisionError" in verdict.wrong.what


RIGHT_SAMPLES = {
    "steps": lambda n, rank, world_size: list(range(rank, n, world_size)),
    "a range": lambda n, rank, world_size: range(n)[rank::world_size],
    "a condition": lambda n, rank, world_size: [i for i in range(n) if i % world_size == rank],
}


def blocks(n, rank, world_size):
    return list(range(n))[n // world_size * rank : n // world_size * (rank + 1)]


def uneven_blocks(n, rank, world_size):
    sizes = [n // world_size + (r < n % world_size) for r in range(world_size)]
    return list(range(sum(sizes[:rank]), sum(sizes[: rank + 1])))


def even_by_repeating(n, rank, world_size):
    each = -(-n // world_size)
    return [i % n for i in range(rank, each * world_size, world_size)]


def even_by_dropping(n, rank, world_size):
    return list(range(rank, n // world_size * world_size, world_size))


def in_turns_back_and_forth(n, rank, world_size):
    """As teams are picked: 0 1 2 2 1 0."""
    rounds = [list(range(n))[i : i + world_size] for i in range(0, n, world_size)]
    turns = [row if k % 2 == 0 else row[::-1] for k, row in enumerate(rounds)]
    return [row[rank] for row in turns if rank < len(row)]


WRONG_SAMPLES = {
    "each takes a block": blocks,
    "neighbours are on the same rank": uneven_blocks,
    "take everything": lambda n, rank, world_size: list(range(n)),
    "take the same samples": lambda n, rank, world_size: list(range(0, n, world_size)),
    "rank 0 begins with sample 0": lambda n, rank, world_size: list(range(rank + 1, n, world_size)),
    "go on by world_size": lambda n, rank, world_size: list(range(rank, n, 2)),
    "taken twice": even_by_repeating,
    "some samples are lost": even_by_dropping,
    "from 0 to n - 1": lambda n, rank, world_size: list(range(rank, n + world_size, world_size)),
    "belongs to rank i % world_size": in_turns_back_and_forth,
    "behind `return`": lambda n, rank, world_size: None,
}


@pytest.mark.parametrize("style", RIGHT_SAMPLES)
def test_right_samples(style):
    verdict = check("0.2", RIGHT_SAMPLES[style])
    assert verdict.passed, verdict
    assert verdict.lines[:2] == [
        "32 samples, 4 ranks: as DistributedSampler",
        "33 samples, 4 ranks: each of them once",
    ]


def test_wrong_samples():
    for phrase, wrong in WRONG_SAMPLES.items():
        rejected(check("0.2", wrong), phrase)


def test_samples_that_are_no_list():
    verdict = check("0.2", lambda n, rank, world_size: rank)
    assert "expected a list of indices, got 0" in verdict.wrong.what


@pytest.mark.parametrize("number", ["0.1", "0.2"])
def test_hints(number, capsys):
    hint(number)
    assert "1 of " in capsys.readouterr().out
