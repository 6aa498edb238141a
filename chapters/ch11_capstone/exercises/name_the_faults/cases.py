"""Constants that the check and the truth share."""

CASE, MOST_REASONS = "your names", 3

SHAPE = 'return a dict: {"seed": 7, "A": "summed", "B": …}'

OTHER_SEEDS = "the dict has the seed of your exam, too: other seeds draw other sheets"

A_SEED = "the seed of your exam is a whole number: the one behind `seed =`"
