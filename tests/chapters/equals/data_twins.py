"""What data parallel training begins with: equal models, each rank's samples, and buckets."""

from functools import partial

import torch
import torch.distributed as dist
from collectives_twins import members
from gradient_twins import NETS, make_model
from helpers import load_solved_lab
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from twins import EQUAL, Excluded, Twin

DATA, BUCKETS, SIMPLE = map(
    load_solved_lab, ("data_parallel", "gradient_sync_visualizer", "simple_ddp")
)

# ---- Equal models -----------------------------------------------------------------------------

BUFFERS = {
    "bool buffer": lambda: torch.randint(2, (5,)).bool(),
    "int64 buffer": lambda: torch.randint(100, (5,)),
    "uint8 buffer": lambda: torch.randint(100, (5,)).byte(),
    "complex buffer": lambda: torch.randn(5, dtype=torch.complex64),
    "buffer with no dimension": lambda: torch.randn(()),
    "buffer without elements": lambda: torch.randn(0),
    "strided buffer": lambda: torch.randn(4, 6)[:, ::2],
    "expanded buffer": lambda: torch.randn(1, 3).expand(4, 3),
    "transposed buffer": lambda: torch.randn(3, 4).t(),
}
PARAMETERS = {
    "strided parameter": lambda: torch.randn(4, 6)[:, ::2],
    "transposed parameter": lambda: torch.randn(3, 4).t(),
}


def make_unequal(condition):
    """Return a model with other values on each rank."""
    model = make_model(condition)
    if condition in BUFFERS:
        model.register_buffer("more", BUFFERS[condition]())
    if condition in PARAMETERS:
        model.more = nn.Parameter(PARAMETERS[condition]())
    return model


def start(begin, condition):
    group, model = dist.new_group(members(condition)), make_unequal(condition)
    if dist.get_rank() in members(condition):
        begin(model, group)
    return [x.detach().clone() for x in (*model.parameters(), *model.buffers())]


def prepare_start(condition):
    def theirs(model, group):
        if condition == "expanded buffer":  # which DistributedDataParallel also refuses
            model.more = model.more.contiguous()
        DistributedDataParallel(model, process_group=group)

    return partial(start, SIMPLE.start_equal, condition), partial(start, theirs, condition)


# ---- Samples ----------------------------------------------------------------------------------

LENGTHS = {  # length, ranks, epoch, seed
    "a multiple": (12, 4, 0, 0),
    "no multiple": (13, 4, 1, 0),
    "fewer samples than ranks": (2, 5, 0, 3),
    "a single sample": (1, 4, 0, 0),
    "no sample": (0, 3, 0, 0),
    "one rank": (7, 1, 2, 0),
    "a late epoch": (20, 3, 2**40, 5),
    "a negative seed": (20, 3, 1, -7),
    "many": (10_001, 16, 1, 1),
}


def prepare_samples(condition):
    length, n, epoch, seed = LENGTHS[condition]

    def ours(rank):
        return DATA.samples_of_rank(length, epoch, rank, n, seed)

    def theirs(rank):
        sampler = DistributedSampler(range(length), n, rank, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    def read(samples):
        torch.manual_seed(1)
        return [samples(rank) for rank in range(n)], torch.rand(3)  # chance is where it was

    return partial(read, ours), partial(read, theirs)


# ---- Buckets ----------------------------------------------------------------------------------

SHAPES = {"float32": [(5,), (3, 2), (4,), (20,), (1,), (2, 2)],
          "no dimension": [(5,), (), (4,), ()],
          "without elements": [(0,), (5,), (0,), (4,), (0,)],
          "larger than a bucket": [(4,), (100,), (4,), (100,)],
          "exactly a bucket": [(5,), (5,), (4,), (5,)],
          "a single tensor": [(5,)]}  # fmt: skip
MODELS = dict.fromkeys(
    (*SHAPES, "float64", "bfloat16", "frozen", "tied", "buckets of nothing", "one bucket",
     "channels_last"), EQUAL
) | {"two dtypes": Excluded("of one dtype")}  # fmt: skip


class Chain(nn.Module):
    """Parameters whose gradients become ready from the last to the first."""

    def __init__(self, condition):
        super().__init__()
        shapes = SHAPES.get(condition, SHAPES["float32"])
        self.parts = nn.ParameterList(torch.randn(shape) for shape in shapes)
        self.to(getattr(torch, condition) if condition in ("float64", "bfloat16") else None)
        if condition == "channels_last":
            image = torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last)
            self.parts.append(nn.Parameter(image))
        if condition == "frozen":
            self.parts[1].requires_grad_(False)
        if condition == "tied":
            self.parts.append(self.parts[0])

    def forward(self, x):
        for part in self.parts:
            x = x * (1 + part.sum())
        return x


def prepare_buckets(condition):
    model, size = (
        Chain(condition),
        {"buckets of nothing": 0, "one bucket": 10**6}.get(condition, 20),
    )
    number = {p: k for k, p in enumerate(model.parameters())}

    def ours():
        return [
            [number[p] for p in part] for part in BUCKETS.make_buckets(model.parameters(), size)
        ]

    def theirs():
        ddp = DistributedDataParallel(model, bucket_cap_mb=size / 2**20)
        ddp.register_comm_hook(found := [], note_bucket)
        for _ in range(2):
            found.clear()
            ddp(torch.ones(())).backward()
        return [[number[p] for p in part] for part in found]

    return ours, theirs


def note_bucket(found, bucket):
    found.append(bucket.parameters())
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


STARTS = dict.fromkeys((*NETS, "a group of some ranks", *BUFFERS, *PARAMETERS), EQUAL)
STARTS |= dict.fromkeys(
    ("strided buffer", "expanded buffer", "strided parameter"), "gaps in memory"
)
TWINS = [
    Twin("simple_ddp.start_equal", STARTS, prepare_start),
    Twin("data_parallel.samples_of_rank", dict.fromkeys(LENGTHS, EQUAL), prepare_samples,
         sizes=(1,)),
    Twin("gradient_sync_visualizer.make_buckets", MODELS, prepare_buckets),
]  # fmt: skip
