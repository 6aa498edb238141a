"""The number of parameters of a Llama. The truth makes its matrices on a device without memory."""

from coursekit.kit import Formula

from .truth import MISTAKES, truth

EXERCISE = Formula(
    "llama_parameters",
    cases={
        "1 layer, width 4, 2 heads, 1 of keys": [(1, 4, 2, 1, 8, 10)],
        "2 layers, width 12, 4 heads, 2 of keys": [(2, 12, 4, 2, 20, 30)],
        "3 layers, as many heads of keys as of queries": [(3, 16, 4, 4, 40, 50)],
        "Llama 2 7B": [(32, 4096, 32, 32, 11008, 32000)],
        "Llama 2 70B": [(80, 8192, 64, 8, 28672, 32000)],
        "Llama 3 405B": [(126, 16384, 128, 8, 53248, 128256)],
    },
    truth=truth,
    mistakes=MISTAKES,
    unit=" parameters",
    hints=(
        "Begin with one block: two matrices width × width, two for keys and values, three of the "
        "MLP, two norms.",
        "One head has width / heads features. kv_heads of them make up the keys.",
    ),
)
