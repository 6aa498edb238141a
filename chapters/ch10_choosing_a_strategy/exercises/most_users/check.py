"""The number of users that a server has room for. The truth adds one user after another."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "most_users",
    cases={
        "12 heads on 4 GPUs": [(500_000, 240_000, 4, 5, 12, 11, 7)],
        "memory 100, tp 2": [(100, 120, 2, 1, 2, 1, 5)],
        "tp 1": [(100, 60, 1, 1, 2, 1, 2), (100, 50, 1, 2, 1, 2, 3)],
        "more ranks than heads of keys": [(100, 80, 4, 1, 2, 1, 5), (100, 80, 8, 2, 2, 1, 2)],
        "the last one just fits": [(120, 120, 2, 1, 2, 1, 5), (119, 120, 2, 1, 2, 1, 5)],
        "no room": [(100, 240, 2, 1, 2, 1, 5), (100, 190, 2, 1, 2, 1, 5)],
        "llama-3-70b on 8 H100, 8,192 tokens": [(72 * 10**9, 1411 * 10**8, 8, 80, 8, 128, 8192)],
    },
    truth=truth,
    whole="users are whole numbers",
    mistakes=MISTAKES,
    errors={
        "by zero": "with more GPUs than heads of keys, kv_heads // tp is 0: each GPU still keeps "
        "one whole head"
    },
    hints=(
        "What does one GPU keep of one user? Two (key and value) × layers × its heads × size × "
        "tokens numbers of 2 bytes.",
        "How many heads of keys does a GPU have? With more GPUs than heads it still has one.",
    ),
)
