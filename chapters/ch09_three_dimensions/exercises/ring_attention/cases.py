"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist

from coursekit.kit import GROUP, RankCase, Rejection, World, measure_answer
from coursekit.kit.results import NO_RETURN
from coursekit.kit.tables import tabulate
from pedagogy_lib.measuring.recorder import measure, peak_bytes_in

SIZES, LONG = (4, 6), 1024  # features of a head; places where memory is checked

SAMPLES, HEADS = 2, 3


def contiguous_layout(context, n):
    return list(torch.arange(context).chunk(n))


def case(world, layout, context):
    return RankCase(world, (layout, context), f", {context} places {layout}")


CASES = [
    case(World(3), "in a row", 12),
    case(World(2), "in a row", 8),
    case(World(2), "zigzag", 8),
    case(World(1), "in a row", 6),
    case(World(4), "zigzag", 16),
    case(GROUP, "in a row", 9),
    case(World(8), "in a row", LONG),
]


@tabulate(lambda: [(case.args[1], len(case.ranks)) for case in CASES
                 if case.args[0] == "zigzag"], beside=True)  # fmt: skip
def zigzag_layout(context, n):
    pieces = torch.arange(context).chunk(2 * n)
    return [torch.cat([pieces[k], pieces[2 * n - 1 - k]]) for k in range(n)]


LAYOUTS = {"in a row": contiguous_layout, "zigzag": zigzag_layout}


def whole(context) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(context)
    shape = SAMPLES, HEADS, context, SIZES[context % 3 == 0]
    return [torch.randn(shape, generator=chance, dtype=torch.float64) for _ in range(3)]


def pieces_of(context, places):
    return [x[:, :, places].contiguous() for x in whole(context)]


def go_round(answer, group, case):
    layout, context = case.args
    places = LAYOUTS[layout](context, dist.get_world_size(group))
    mine = pieces_of(context, places[dist.get_rank(group)])
    before, label = [x.clone() for x in mine], f"ring {layout} {context} {case}"
    given = list(places)
    with measure(label), measure_answer():
        value = answer(*mine, given, group)
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if not is_pair or not all(isinstance(x, torch.Tensor) for x in value):
        why = NO_RETURN if value is None else "asked are two tensors: what comes out, and lse"
        raise Rejection(f"it returned {value!r:.40}", why)
    changed = [name for name, x, y in zip("qkv", mine, before) if not x.equal(y)]
    if len(given) != len(places) or not all(map(torch.equal, given, LAYOUTS[layout](
        context, dist.get_world_size(group)))):  # fmt: skip
        changed.append("places")
    return {"out": value[0], "lse": value[1], "changed": changed,
            "peak": peak_bytes_in(label)["total"]}  # fmt: skip
