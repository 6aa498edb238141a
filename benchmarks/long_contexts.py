"""Ring attention in solutions/labs/long_contexts.py, compared with attention with all keys."""

from functools import partial
from pathlib import Path
from statistics import median

from rows import Measurement, Row, milliseconds

from coursekit.labs import Lab
from pedagogy_lib import launch

SOLVED = Path(__file__).resolve().parents[1] / "solutions" / "labs"
RANKS, ROUNDS, MOST = 4, 5, 1.0  # times the seconds with all keys


def measurements() -> list[Measurement]:
    return [
        Measurement(f"a ring, {places} places", partial(compare_attention, places))
        for places in (2048, 4096)
    ]


def compare_attention(places):
    """Time forward and backward in turns, at lengths where all keys take many times the memory."""
    labs = Lab("long_contexts", *[SOLVED / "long_contexts.py"] * 2)
    ways = {"ring": labs.zigzag, "all keys": labs.contiguous_places}
    seconds, peaks = {way: [] for way in ways}, {}
    for turn in range(ROUNDS):
        for way in sorted(ways, reverse=turn % 2):
            run = launch(labs.attention_alone, way, ways[way], places, world_size=RANKS,
                         device="cpu", timeout=120)  # fmt: skip
            seconds[way].append(max(run.values))
            peaks[way] = max(of_rank["total"] for of_rank in run["attention"].peak_bytes)
    ours, theirs = (median(seconds[way]) for way in ways)
    memory = peaks["ring"] / peaks["all keys"]
    yield Row(
        f"ring (zigzag) beside all keys, {RANKS} ranks, {places:,} places; memory {memory:.2f}x",
        milliseconds(ours), milliseconds(theirs), f"{ours / theirs:.2f}x", f"<= {MOST}x",
        ours <= MOST * theirs, {"ours_seconds": ours, "peer_seconds": theirs, "memory": memory},
    )  # fmt: skip
