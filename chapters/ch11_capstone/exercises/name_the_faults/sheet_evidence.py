"""The evidence on a sheet of the exam for each fault; a test compares it with runs of the faults.

Each fault has the evidence that differs from last week's. The first evidence in which two faults
differ distinguishes them.
"""

LAST_WEEK = {
    "ends": True,
    "dp": 1,  # bytes that a rank sends in a step, relative to last week's
    "tp": 1,
    "momentum": 1,  # bytes of a rank, relative to last week's
    "activations": "one",
    "time": "last week's",
    "calls": "last week's",
    "from": None,  # the first step whose losses differ from last week's
    "ranks": None,  # the first step in which the tensor ranks of a copy have different losses
    "copies": "own",
    "first": "far",  # how far the losses of step 0 are from last week's, if they differ
    "fall": 1,  # of the held-out loss in step 0, relative to last week's
}
DIFFERENT = {
    "same samples": {"from": 0, "copies": "same"},
    "own shuffles": {"from": 0, "ranks": 0},
    "same order": {"from": 6},
    "epoch anew": {"from": 15},
    "summed": {"from": 1, "fall": 2},
    "not divided": {"from": 1, "fall": 4},
    "not cleared": {"from": 2},
    "never exchanged": {"dp": 0.33, "from": 1},
    "exchanged each time": {"dp": 3},
    "nothing sharded": {"dp": 0.67, "momentum": 2},
    "momentum lost": {"from": 16},
    "no sum forward": {"tp": 0.45, "from": 0, "ranks": 0},
    "no sum backward": {"tp": 0.56, "from": 1, "ranks": 1},
    "inner not summed": {"tp": 0.99, "from": 1},
    "own masks": {"from": 0, "ranks": 0, "first": "near"},
    "graphs kept": {"activations": "growing"},
    "backwards last": {"activations": "four"},
    "slow data": {"time": "data"},
    "slow rank": {"time": "rank"},
    "slow link": {"time": "link"},
    "slow tensor link": {"time": "tensor link"},
    "other order": {"ends": False, "calls": "other order"},
    "batch less": {"ends": False, "calls": "none"},
    "lone barrier": {"ends": False, "calls": "barrier"},
}
SHOWS = {fault: LAST_WEEK | differs for fault, differs in DIFFERENT.items()}
WORDS = {
    "ends": {True: "the last step ends", False: "the last step does not end"},
    "activations": {
        "one": "rank 0 never has more activations than last week",
        "four": "activations are four times last week's in each step, and are freed in it",
        "growing": "activations grow from step to step, and are never freed",
    },
    "time": {
        "last week's": "the bars of the timeline are as long as last week's",
        "data": "all ranks spend as long on “data” as on computing",
        "rank": "the forwards and backwards of one rank are long without its sums",
        "link": "“dp sum” and “dp gather” are long on all ranks, even on the one that comes last",
        "tensor link": "each “tp sum” is long on both ranks of a copy",
    },
    "calls": {
        "last week's": "all ranks have made the same calls in the same order",
        "other order": "one rank has made its call over all ranks before its call over dp",
        "none": "one rank has made no call of the last step",
        "barrier": "all have made their calls over dp, and one rank's last call is a barrier",
    },
    "copies": {"own": "each copy has losses of its own", "same": "both copies have one loss"},
    "first": {
        "far": "some loss of step 0 is more than 0.05 from last week's",
        "near": "all losses of step 0 are less than 0.05 from last week's",
    },
}
TIMES = {
    "dp": "a rank sends {} last week over dp",
    "tp": "a rank sends {} last week over tp",
    "momentum": "a rank has {} last week's optimizer state",
    "fall": "in step 0 the held-out loss falls {} last week's",
}
FROM = {
    "from": ("losses are not last week's", "all losses are last week's"),
    "ranks": ("the two ranks of a copy disagree on its loss", "the ranks of each copy agree"),
}


def difference(fault, other) -> tuple:
    """Return (evidence, its value with `fault`, its value with `other`): the first that differs."""
    a, b = SHOWS[fault], SHOWS[other]
    evidence = next(evidence for evidence in LAST_WEEK if a[evidence] != b[evidence])
    return evidence, a[evidence], b[evidence]


def describe_evidence(evidence, value) -> str:
    """Return a clause that describes the value of a kind of evidence."""
    if evidence in WORDS:
        return WORDS[evidence][value]
    if evidence in TIMES:
        times = "as much as" if value == 1 else f"{value} times as much as"
        return TIMES[evidence].format(times)
    what, otherwise = FROM[evidence]
    return otherwise if value is None else f"{what} from step {value} on"
