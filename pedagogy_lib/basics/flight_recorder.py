"""The collectives that a rank has begun in each process group, from PyTorch's flight recorder.

The recorder is part of torch.distributed, on from the start, and sees every collective, also those
that DDP's C++ code makes. It does not see sends and receives. Private:
torch._C._distributed_c10d._dump_fr_trace_json, and distributed_c10d._world with its groups.
"""

import contextlib
import json
from typing import NamedTuple

import torch
from torch.distributed import distributed_c10d

MOST_CALLS = 20  # of a group, the last ones
DTYPES = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
          "Long": "int64", "Int": "int32", "Byte": "uint8", "Bool": "bool"}  # fmt: skip


class GroupCalls(NamedTuple):
    """The collectives of one rank in one group.

    label  the group's name in a message: "tp", or its number if it has no description
    ranks  the members of the group, by their ranks in the world
    begun  how many collectives this rank has begun
    ended  how many of them have ended on this rank
    calls  {number: text} of the last ones, such as {12: "all_reduce(float32[3])"}
    """

    label: str
    ranks: tuple[int, ...]
    begun: int
    ended: int
    calls: dict[int, str]


def find_group_calls() -> dict[str, GroupCalls]:
    """Return this rank's calls by the name of their group; empty if nothing was recorded."""
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    found = {}
    with contextlib.suppress(Exception):  # another version of torch may record something else
        trace = json.loads(dump())
        for name, label, ranks in list_groups():
            entries = [one for one in trace["entries"] if one["process_group"][0] == name]
            calls = {one["collective_seq_id"]: describe_call(one)
                     for one in entries if not one["is_p2p"]}  # fmt: skip
            status = trace["pg_status"].get(str(entries[-1]["pg_id"])) if entries else {}
            ended = max(0, int(status.get("last_completed_collective", 0)))
            last = {number: calls[number] for number in sorted(calls)[-MOST_CALLS:]}
            found[name] = GroupCalls(label, ranks, max(calls, default=0), ended, last)
    return found


def list_groups():
    """Yield the name, the label and the ranks of each process group of this rank."""
    world = distributed_c10d._world
    for group, ranks in list(world.pg_group_ranks.items()):
        name = world.pg_names.get(group)
        if name is not None and group in world.pg_map:
            described = group.group_desc.removeprefix("mesh_")
            yield name, name if described == "undefined" else described, tuple(sorted(ranks))


def describe_call(entry) -> str:
    """Describe one entry of the recorder, as in "all_reduce(float32[3])"."""
    name = entry["profiling_name"].rpartition(":")[2]
    shapes = zip(entry["input_dtypes"], entry["input_sizes"])
    tensors = [f"{DTYPES.get(dtype, dtype)}{shape}" for dtype, shape in shapes]
    return f"{name}({', '.join(tensors[:1])}{', …' * (len(tensors) > 1)})"
