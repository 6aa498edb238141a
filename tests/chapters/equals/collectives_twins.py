"""The collectives that chapter 02 writes by hand, next to those of torch.distributed."""

import math

import torch
import torch.distributed as dist
from helpers import load_solved_lab
from twins import EQUAL, Twin

RINGS, HALVING, MACHINES, CALLED, SILENT = map(
    load_solved_lab,
    ("collectives", "halving_doubling", "across_machines", "collectives_called",
     "silent_corruption"),
)  # fmt: skip
DTYPES = {
    name: getattr(torch, name)
    for name in ("float64", "float32", "bfloat16", "float16", "complex64", "int64", "uint8")
}
SHAPES = {
    "empty": (0,),
    "no dimension": (),
    "fewer numbers than ranks": (2,),
    "several dimensions": (3, 1, 5),
}
LENGTH = 7  # which neither 2, 3 nor 4 divides
TENSORS = dict.fromkeys((*DTYPES, *SHAPES, "inference mode", "a group of some ranks"), EQUAL)
NOT_CONTIGUOUS = dict.fromkeys(("strided", "channels_last", "expanded"), "contiguous")


def make_tensor(condition, length=LENGTH):
    """Return this rank's tensor: small whole numbers, which every dtype adds up exactly."""
    chance = torch.Generator().manual_seed(dist.get_rank())
    shape = SHAPES.get(condition, (length,))
    shape = {"channels_last": (2, 3, 2, 2), "strided": (length, 2)}.get(condition, shape)
    x = torch.randint(0, 6, shape, generator=chance).to(DTYPES.get(condition, torch.float64))
    if condition == "channels_last":
        return x.to(memory_format=torch.channels_last)
    if condition == "expanded":
        return x[:1].expand(length)
    return x[:, 1] if condition == "strided" else x


def make_chunks(condition):
    """Return a list with a tensor for each rank."""
    n = len(members(condition))
    uneven = condition == "uneven"
    chunks = [make_tensor(condition, LENGTH + uneven * k) + k for k in range(n)]
    return [*chunks[:-1], chunks[-1].half(), chunks[-1]] if condition == "two dtypes" else chunks


def members(condition) -> list[int]:
    """Return the ranks of a condition's group: all, or all but rank 0 if there are others."""
    n = dist.get_world_size()
    first = {"a group of some ranks": min(1, n - 1), "a group of half of the ranks": n // 2}
    return list(range(first.get(condition, 0), n))


def pair(ours, theirs, make, result=lambda x: x):
    """Make a twin's `prepare`.

    ours, theirs  (input, group): change the input in place
    make          (condition) -> the input, a tensor or a list of them
    result        (input) -> what is compared
    """

    def prepare(condition):
        group = dist.new_group(members(condition))
        is_member, given = dist.get_rank() in members(condition), make(condition)

        def run(function, copy):
            def call():
                with torch.inference_mode(condition == "inference mode"):
                    x = [copy(one) for one in given] if isinstance(given, list) else copy(given)
                    if is_member:
                        function(x, group)
                        return result(x, group)

            return call

        if condition in NOT_CONTIGUOUS:
            return run(ours, lambda x: x), run(theirs, torch.Tensor.contiguous)
        return run(ours, torch.clone), run(theirs, torch.clone)

    return prepare


def whole(x, group):
    return x


def own(chunks, group):
    return chunks[dist.get_rank(group)]


def at_root(x, group):
    return x if dist.get_rank(group) == last(group) else None


def last(group) -> int:
    return dist.get_world_size(group) - 1


def gather(chunks, group):
    if len({x.shape for x in chunks}) == 1:
        dist.all_gather(chunks, own(chunks, group).clone(), group=group)
    else:  # which Gloo's all-gather refuses
        for rank, chunk in enumerate(chunks):
            dist.broadcast(chunk, group_src=rank, group=group)


def gather_flat(chunks, group):
    lengths = [len(x) for x in chunks]
    chunks[:] = CALLED.gather_uneven(own(chunks, group), lengths, group).split(lengths)


def scatter_sums(chunks, group):
    received = torch.empty_like(own(chunks, group))
    dist.reduce_scatter(received, [x.clone() for x in chunks], group=group)
    own(chunks, group).copy_(received)


def exchange_by_torch(outputs, inputs, group):
    if len({x.shape for x in inputs}) == 1:
        dist.all_to_all(outputs, inputs, group=group)
    else:  # which Gloo's all_to_all refuses
        sizes, received = [[len(x) for x in some] for some in (inputs, outputs)], torch.cat(outputs)
        dist.all_to_all_single(received, torch.cat(inputs), sizes[1], sizes[0], group=group)
        outputs[:] = received.split(sizes[1])


def exchange(function):
    """Return a function that fills a list with what the other ranks have sent."""

    def call(inputs, group):
        outputs = [torch.empty_like(own(inputs, group)) for _ in inputs]
        function(outputs, [x.clone() for x in inputs], group=group)
        inputs[:] = outputs

    return call


def add_in_two_levels(x, group):
    """Add up over machines with as many ranks each as there are machines, or more."""
    n = dist.get_world_size()
    local = next(k for k in range(math.isqrt(n - 1) + 1, n + 1) if n % k == 0)
    rows = [list(range(i, i + local)) for i in range(0, n, local)]
    MACHINES.hierarchical_all_reduce(x, own_group(rows), own_group(list(zip(*rows))))


def own_group(lines):
    """Make a group of each line of ranks, and return the one with this rank."""
    groups = [dist.new_group(list(line)) for line in lines]
    return next(group for group in groups if dist.get_rank(group) >= 0)


SUMS = TENSORS | NOT_CONTIGUOUS
LISTS = {k: v for k, v in TENSORS.items() if k not in SHAPES} | {"empty": EQUAL, "uneven": EQUAL}
NOT_FLAT = ("no dimension", "several dimensions", "channels_last")
FLAT = {k: v for k, v in SUMS.items() if k not in NOT_FLAT} | {
    "strided": EQUAL, "expanded": "more than one element of the written-to tensor"}  # fmt: skip
GRID = {k: v for k, v in SUMS.items() if k != "a group of some ranks"}
HALVES = GRID | {"a group of half of the ranks": EQUAL}  # of three, one has no partner
TWINS = [
    Twin("collectives.all_reduce_ring", SUMS,
         pair(RINGS.all_reduce_ring, lambda x, g: dist.all_reduce(x, group=g), make_tensor, whole)),
    Twin("collectives.broadcast_tree", SUMS,
         pair(lambda x, g: RINGS.broadcast_tree(x, last(g), g),
              lambda x, g: dist.broadcast(x, group_src=last(g), group=g), make_tensor, whole)),
    Twin("collectives.reduce_tree", SUMS,
         pair(lambda x, g: RINGS.reduce_tree(x, last(g), g),
              lambda x, g: dist.reduce(x, group_dst=last(g), group=g), make_tensor, at_root)),
    Twin("collectives.reduce_scatter_ring", LISTS,
         pair(RINGS.reduce_scatter_ring, scatter_sums, make_chunks, own)),
    Twin("collectives.all_gather_ring", LISTS,
         pair(RINGS.all_gather_ring, gather, make_chunks, whole)),
    Twin("collectives_called.gather_uneven", LISTS,
         pair(gather_flat, gather, make_chunks, whole)),
    Twin("silent_corruption.sum_with_checksums", FLAT,
         pair(lambda x, g: SILENT.sum_with_checksums(x, g),
              lambda x, g: dist.all_reduce(x, group=g), make_tensor, whole)),
    Twin("collectives.all_to_all", LISTS,
         pair(exchange(RINGS.all_to_all), exchange(exchange_by_torch), make_chunks, whole)),
    Twin("collectives.all_reduce_buckets", LISTS | {"two dtypes": "several dtypes"},
         pair(lambda x, g: RINGS.all_reduce_buckets(x, 100, g),
              lambda x, g: [dist.all_reduce(one, group=g) for one in x], make_chunks, whole)),
    Twin("halving_doubling.all_reduce_halving_doubling", HALVES,
         pair(HALVING.all_reduce_halving_doubling, lambda x, g: dist.all_reduce(x, group=g),
              make_tensor, whole), sizes=(2, 1, 4)),
    Twin("across_machines.hierarchical_all_reduce", GRID,
         pair(add_in_two_levels, lambda x, g: dist.all_reduce(x, group=g), make_tensor, whole)),
]  # fmt: skip
