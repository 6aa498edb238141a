"""The right results, and the results of known mistakes."""

from functools import cache
from math import comb


@cache
def truth(layers, devices) -> int:
    """Count plans: the first stage takes some layers and 2^k devices; then the rest is counted."""
    if layers == 0 or devices == 0:
        return int(layers == devices == 0)
    sizes = (2**k for k in range(devices.bit_length()))
    return sum(
        truth(layers - taken, devices - size) for size in sizes for taken in range(1, layers + 1)
    )


@cache
def sequences(stages, devices, sizes_of, ordered=True, least=1) -> int:
    """Count sequences of submeshes that use all devices; only ascending ones unless `ordered`."""
    if stages == 0:
        return int(devices == 0)
    sizes = [size for size in sizes_of(devices) if ordered or size >= least]
    return sum(
        sequences(stages - 1, devices - size, sizes_of, ordered, 1 if ordered else size)
        for size in sizes
    )


def powers(devices):
    return [2**k for k in range(devices.bit_length())]


def any_number(devices):
    return list(range(1, devices + 1))


def allow_empty_stages(devices):
    return [0, *powers(devices)]


def not_single(devices):
    return powers(devices)[1:]


def not_all(devices):
    return [size for size in powers(devices) if size < devices]


def even(devices):
    return [1, *range(2, devices + 1, 2)]


def divisors(devices):
    return [size for size in range(1, devices + 1) if devices % size == 0]


def limit_to_8(devices):
    return powers(devices)[:4]


def limit_to_16(devices):
    return powers(devices)[:5]


def limit_to_32(devices):
    return powers(devices)[:6]


@cache
def count_early_ends(layers, devices):
    """Count a plan as soon as layers or devices are used up."""
    if layers == 0 or devices == 0:
        return 1
    return sum(
        count_early_ends(layers - taken, devices - size)
        for size in powers(devices) for taken in range(1, layers + 1)
    )  # fmt: skip


def sum_over_stages(cuts, tilings):
    """Return a count that adds up cuts × tilings over all numbers of stages."""

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


MISTAKES = [
    (
        "this counts the cuts alone: each stage also gets a submesh.",
        lambda layers, devices: 2 ** (layers - 1),
    ),
    (
        "this counts the submeshes alone: the layers can be cut at many places.",
        sum_over_stages(lambda layers, stages: 1, right_tilings),
    ),
    (
        "submeshes have 1, 2, 4, 8, … devices: this counts any number of devices.",
        sum_over_stages(right_cuts, lambda s, d: sequences(s, d, any_number)),
    ),
    (
        "2 + 1 and 1 + 2 are two ways: the first stage has other layers than the second one.",
        sum_over_stages(right_cuts, lambda s, d: sequences(s, d, powers, ordered=False)),
    ),
    ("all devices are used: this also counts plans that leave some idle.", not_all_devices),
    (
        "stages are made of consecutive layers: so only the places between two layers count, and "
        "there is one place less than there are layers.",
        sum_over_stages(comb, right_tilings),
    ),
    (
        "with s stages there are s - 1 cuts, not s.",
        sum_over_stages(lambda layers, s: comb(layers - 1, s), right_tilings),
    ),
    (
        "one stage for the whole model is a plan as well.",
        lambda layers, devices: truth(layers, devices) - (devices.bit_count() == 1),
    ),
    (
        "a stage may also have one layer alone.",
        sum_over_stages(
            lambda layers, s: comb(layers - s - 1, s - 1) if layers > s else 0, right_tilings
        ),
    ),
    (
        "stages may have different numbers of devices: that is what this part is about.",
        sum_over_stages(right_cuts, equal_submeshes),
    ),
    (
        "as many stages as layers are allowed, too: then each stage has one layer.",
        lambda layers, devices: truth(layers, devices) - right_tilings(layers, devices),
    ),
    (
        "each stage gets at least one device; none may have no device.",
        sum_over_stages(right_cuts, lambda s, d: sequences(s, d, allow_empty_stages)),
    ),
    (
        "a stage may also have one device alone.",
        sum_over_stages(right_cuts, lambda s, d: sequences(s, d, not_single)),
    ),
    (
        "a stage may also have all devices that are left.",
        sum_over_stages(right_cuts, lambda s, d: sequences(s, d, not_all)),
    ),
    *(
        (
            "submeshes have 1, 2, 4, 8, … devices: 6 is no power of 2.",
            sum_over_stages(right_cuts, lambda s, d, sizes=sizes: sequences(s, d, sizes)),
        )
        for sizes in (even, divisors)
    ),
    *(
        (
            "1, 2, 4, 8, … goes on: a submesh may have as many devices as there are.",
            sum_over_stages(right_cuts, lambda s, d, sizes=sizes: sequences(s, d, sizes)),
        )
        for sizes in (limit_to_8, limit_to_16, limit_to_32)
    ),
    (
        "this also counts plans with layers, or devices, left over: both have to be used up.",
        count_early_ends,
    ),
    ("this gives each stage one layer alone: a stage may have several.", right_tilings),
    (
        "stages may have different numbers of layers.",
        lambda layers, devices: sum(
            right_tilings(s, devices) for s in range(1, layers + 1) if layers % s == 0
        ),
    ),
    (
        "layers and devices are exchanged: a stage has any number of layers, and 1, 2, 4, … "
        "devices.",
        lambda layers, devices: truth(devices, layers),
    ),
    (
        "this is the sum of both counts. Each way to cut goes with each way to tile.",
        lambda layers, devices: sum(
            right_cuts(layers, s) + right_tilings(s, devices) for s in range(1, layers + 1)
        ),
    ),
    (
        "the number of stages is the same for both: multiply for each number of stages, then add.",
        lambda layers, devices: (
            2 ** (layers - 1) * sum(right_tilings(s, devices) for s in range(1, layers + 1))
        ),
    ),
]
