"""The labs' messages also arrive where each waits for its turn, as on NCCL: see in_order.py.

None of this is a measurement of NCCL: it is a check against what its documentation promises.
"""

import itertools

import cloudpickle
import in_order
import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from in_order import messages_in_order
from selection import parametrize

from pedagogy_lib import HangError, launch

cloudpickle.register_pickle_by_value(in_order)
SECONDS = 30.0


NAMES = ("collectives", "data_parallel", "parameter_server", "language_model",
         "pipeline_parallel", "pipeline_engines",
         "pipedream", "schedules", "sequence_slices", "tensor_parallel", "sequence_parallel",
         "zero")  # fmt: skip
LABS = {name: load_solved_lab(name) for name in NAMES}
TEXT = LABS["language_model"].standard_library(5_000)


def run(work, world_size, *args, timeout=SECONDS):
    """What `work` returns on the ranks: where each pair has an order, and where each rank has."""
    run = launch(run_both_orders, work, *args, world_size=world_size, device="cpu", timeout=timeout)
    return list(zip(*run.values))


def run_both_orders(work, *args):
    return [run_in_order(work, one_order, *args) for one_order in (False, True)]


def run_in_order(work, one_order, *args):
    with messages_in_order(one_order):
        return work(*args)


# ---- What hangs there ---------------------------------------------------------------------------


def begin_both_and_wait():
    """Right on Gloo. Where messages wait for their turn, both sends are first."""
    peer, x = 1 - dist.get_rank(), torch.full((1,), float(dist.get_rank()))
    incoming = torch.empty_like(x)
    sending = dist.isend(x, peer)
    dist.recv(incoming, peer)
    sending.wait()
    return incoming.item()


def exchange_in_batch():
    peer, x = 1 - dist.get_rank(), torch.full((1,), float(dist.get_rank()))
    incoming = torch.empty_like(x)
    messages = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, incoming, peer)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    return incoming.item()


def test_messages_begun_one_by_one_hang_and_a_batch_does_not():
    assert launch(begin_both_and_wait, world_size=2, device="cpu").values == [1, 0]
    with pytest.raises(HangError):
        run(begin_both_and_wait, 2, timeout=1)
    assert run(exchange_in_batch, 2) == [(1, 0), (1, 0)]


# ---- Collectives --------------------------------------------------------------------------------


def try_collectives(lab):
    """For each collective of the lab: whether the result is right."""
    rank, n = dist.get_rank(), dist.get_world_size()
    total, right = n * (n + 1) / 2, {}
    for name in ("all_reduce_star", "all_reduce_tree", "all_reduce_ring"):
        x = torch.full((7,), rank + 1.0)
        getattr(lab, name)(x)
        right[name] = bool((x == total).all())
    tensors = [torch.full((3,), rank + 1.0) for _ in range(5)]
    lab.all_reduce_buckets(tensors, 24)
    right["all_reduce_buckets"] = all(bool((x == total).all()) for x in tensors)
    for root in range(n):
        x = torch.full((2,), float(rank))
        lab.broadcast_tree(x, root)
        right["broadcast", root] = bool((x == root).all())
    inputs, outputs = torch.arange(n) + 10.0 * rank, torch.zeros(n)
    lab.all_to_all(list(outputs.split(1)), list(inputs.split(1)))
    right["all_to_all"] = outputs.tolist() == [10.0 * k + rank for k in range(n)]
    return right


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_collectives(world_size):
    for of_ranks in run(try_collectives, world_size, LABS["collectives"]):
        for right in of_ranks:
            assert all(right.values()), right


# ---- Pipelines ----------------------------------------------------------------------------------

WAYS = {  # schedule: pieces of a rank
    "naive": 1, "GPipe": 1, "1F1B": 1, "interleaved 1F1B": 2, "zero bubble": 1,
}  # fmt: skip
KINDS = ("Pipeline", "EagerPipeline")


def step(labs, name, kind, microbatches):
    """The loss of one step, and the sum of the gradients' squares, on all ranks together."""
    pipes, engines, models = (
        labs[lab] for lab in ("pipeline_parallel", "pipeline_engines", "language_model")
    )
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    chunks, kind = WAYS[name], {"Pipeline": pipes.Pipeline, "EagerPipeline": engines.EagerPipeline}[
        kind
    ]  # fmt: skip
    make = pipes.stage_in_halves if name == "zero bubble" else pipes.Stage
    model = models.Transformer(width=8, layers=6, heads=2, context=8)
    pipeline = pipes.my_pipeline(model, chunks=chunks, make=make, kind=kind)
    options = {"chunks": chunks} if chunks > 1 else {}
    schedule = labs["schedules"].SCHEDULES[name]
    row = list(schedule(pipeline.rank, pipeline.ranks, microbatches, **options))
    parts = (x.tensor_split(microbatches) for x in models.draw_batch(TEXT, 8, 0, 8))
    loss = pipeline.step(row, *parts)
    return loss, sum(p.grad.square().sum().item() for p in pipes.parameters_of(pipeline))


def try_pipelines(labs):
    return {
        (name, kind): step(labs, name, kind, 4) for name, kind in itertools.product(WAYS, KINDS)
    }


def sums(values):
    """{way: what all ranks have found together}"""
    return {way: [sum(parts) for parts in zip(*(of[way] for of in values))] for way in values[0]}


@pytest.fixture(scope="module")
def alone():
    return sums(run(try_pipelines, 1, LABS)[0])


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_every_schedule(world_size, alone):
    for of_ranks in run(try_pipelines, world_size, LABS):
        for way, found in sums(of_ranks).items():
            assert found == pytest.approx(alone[way], rel=1e-9), way


def try_the_rest(labs):
    """What else sends messages: pipelines without a flush, of slices, and all that uses rings."""
    dream, slices = labs["pipedream"], labs["sequence_slices"]
    for way in dream.WAYS:
        dream.program(way, TEXT, microbatches=6, samples=2)
    slices.program(4, TEXT)
    labs["zero"].program("stage 3", TEXT, steps=1)
    labs["pipeline_parallel"].program(TEXT, steps=1)


@parametrize("world_size", [3, 2], quick=1)
def test_the_programs_of_labs(world_size):
    run(try_the_rest, world_size, LABS)


def serve(lab):
    """A parameter server that waits for all; the other kind receives from anybody: not on NCCL."""
    model = torch.nn.Linear(2, 1)

    def compute_gradients(number):
        model.zero_grad()
        model(torch.ones(1, 2)).sum().backward()

    if dist.get_rank() == 0:
        lab.serve_together(model, torch.optim.SGD(model.parameters(), 0.1), lambda n: n == 3)
    else:
        lab.work(model, compute_gradients)


def test_a_parameter_server():
    run(serve, 3, LABS["parameter_server"])
