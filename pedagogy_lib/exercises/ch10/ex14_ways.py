"""How many plans a pipeline has: cuts of its layers, and submeshes for its stages.

The truth takes away one first stage after another, whatever their number.
"""

from functools import cache
from math import comb

from ..kit import Formula


@cache
def truth(layers, devices) -> int:
    """The first stage takes some layers and a power of two of devices; then the rest is counted."""
    if layers == 0 or devices == 0:
        return int(layers == devices == 0)
    sizes = (2**k for k in range(devices.bit_length()))
    return sum(
        truth(layers - taken, devices - size) for size in sizes for taken in range(1, layers + 1)
    )


def sequences(stages, devices, sizes_of, ordered=True, least=1) -> int:
    """How many sequences of submeshes use all devices; in ascending order, if not ordered."""

    @cache
    def count(stages, devices, least):
        if stages == 0:
            return int(devices == 0)
        sizes = [size for size in sizes_of(devices) if ordered or size >= least]
        return sum(count(stages - 1, devices - s, 1 if ordered else s) for s in sizes)

    return count(stages, devices, least)


def powers(devices):
    return [2**k for k in range(devices.bit_length())]


def any_number(devices):
    return list(range(1, devices + 1))


def summed(cuts, tilings):
    """Over all numbers of stages: ways to cut × ways to tile."""

    def count(layers, devices):
        return sum(cuts(layers, s) * tilings(s, devices) for s in range(1, layers + 1))

    return count


def right_cuts(layers, stages):
    return comb(layers - 1, stages - 1)


def right_tilings(stages, devices):
    return sequences(stages, devices, powers)


def not_all_devices(layers, devices):
    return sum(truth(layers, used) for used in range(1, devices + 1))


def equal_submeshes(stages, devices):
    return int(devices % stages == 0 and (devices // stages).bit_count() == 1)


EXERCISE = Formula(
    "10.14",
    "ways",
    cases={
        "5 layers, 8 devices": [(5, 8)],
        "2 layers, 2 devices": [(2, 2)],
        "3 layers, 4 devices": [(3, 4)],
        "1 layer": [(1, 8), (1, 6)],
        "6 layers, 6 devices": [(6, 6)],
        "more devices than layers": [(3, 16), (2, 7)],
        "more layers than devices": [(9, 4), (5, 1)],
        "48 layers, 64 devices": [(48, 64)],
    },
    truth=truth,
    mistakes=[
        ("this counts the cuts alone: each stage also gets a submesh.",
         lambda layers, devices: 2 ** (layers - 1)),
        ("this counts the submeshes alone: the layers can be cut at many places.",
         summed(lambda layers, stages: 1, right_tilings)),
        ("submeshes have 1, 2, 4, 8, … devices: this counts any number of devices.",
         summed(right_cuts, lambda s, d: sequences(s, d, any_number))),
        ("2 + 1 and 1 + 2 are two ways: the first stage has other layers than the second one.",
         summed(right_cuts, lambda s, d: sequences(s, d, powers, ordered=False))),
        ("all devices are used: this also counts plans that leave some idle.", not_all_devices),
        ("stages are made of consecutive layers: so only the places between two layers count, and "
         "there is one place less than there are layers.",
         summed(comb, right_tilings)),
        ("with s stages there are s - 1 cuts, not s.",
         summed(lambda layers, s: comb(layers - 1, s), right_tilings)),
        ("one stage for the whole model is a plan as well.",
         lambda layers, devices: truth(layers, devices) - (devices.bit_count() == 1)),
        ("a stage may also have one layer alone.",
         summed(lambda layers, s: comb(layers - s - 1, s - 1) if layers > s else 0, right_tilings)),
        ("stages may have different numbers of devices: that is what this part is about.",
         summed(right_cuts, equal_submeshes)),
        ("as many stages as layers are allowed, too: then each stage has one layer.",
         lambda layers, devices: truth(layers, devices) - right_tilings(layers, devices)),
        ("each stage gets at least one device; none may have no device.",
         summed(right_cuts, lambda s, d: sequences(s, d, lambda left: [0, *powers(left)]))),
        ("this is the sum of both counts. Each way to cut goes with each way to tile.",
         lambda layers, devices: sum(
             right_cuts(layers, s) + right_tilings(s, devices) for s in range(1, layers + 1))),
        ("the number of stages is the same for both: multiply for each number of stages, then add.",
         lambda layers, devices: 2 ** (layers - 1) * sum(
             right_tilings(s, devices) for s in range(1, layers + 1))),
    ],
    asked="a whole number",
    whole="ways are whole numbers",
    errors={"recursion": "the recursion has no end: with no stage left, nothing is to be chosen"},
    hints=(
        "Take the number of stages first. In how many ways can the layers be cut into so many?",
        "Between layers there are layers - 1 places, and s - 1 of them are cuts.",
        "Sequences of s submeshes that use d devices: take the first one away, and count those of "
        "s - 1 for what is left. functools.cache remembers what is counted already.",
    ),
)  # fmt: skip
