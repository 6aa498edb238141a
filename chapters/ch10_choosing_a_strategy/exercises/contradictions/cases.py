"""Data that the cases and the truth share."""

ORDER = ("ranks", "batch", "rate")


def row(**changed) -> dict:
    """Return a row without contradictions, with some numbers changed."""
    plain = {"gpus": 32, "dp": 4, "tp": 2, "pp": 4, "micro_batch": 2, "batch": 64, "flops": 1e12,
             "seconds": 2.0, "tflops": 1.0}  # fmt: skip
    return plain | changed
