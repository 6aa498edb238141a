"""Details of chapter 02's checks: faults of earlier exercises."""

import pytest
from exercise_names import EX
from helpers import append_program, replace_text

from pedagogy_lib import check

WITHOUT_THE_GROUP = """
def all_reduce_ring(x, group=None):
    chunks = list(x.view(-1).tensor_split(dist.get_world_size()))
    reduce_scatter_ring(chunks)
    all_gather_ring(chunks)
"""
CHUNK = """
def all_reduce_ring(x, group=None):
    chunks = list(x.view(-1).chunk(dist.get_world_size(group)))
    reduce_scatter_ring(chunks, group)
    all_gather_ring(chunks, group)
"""
FORGOTTEN = replace_text(
    "exchange(outgoing, following, incoming, previous, group)",
    "exchange(outgoing, following, incoming, previous)",
)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("fault", "first"),
    [
        (append_program(WITHOUT_THE_GROUP), EX.all_reduce_ring),
        (append_program(CHUNK), EX.all_reduce_ring),
        (FORGOTTEN, EX.all_gather_ring),
    ],
    ids=["the group is ignored", "chunk", "a group is forgotten"],
)
def test_a_fault_of_a_ring_is_not_put_down_to_what_is_built_on_it(fault, first, course):
    course(collectives=fault)
    verdict = check(EX.hierarchical_all_reduce)
    assert verdict.passed is False
    assert verdict.wrong.why == f'first: check("{first}")', verdict
