# Built from chapters/ch10_choosing_a_strategy/labs/own_clusters.py by `make build`.
"""A cluster as a TOML file describes it: the GPU, and what is different from its usual machines.

python labs/own_clusters.py path/to/cluster.toml
"""

import sys
from dataclasses import fields, replace
from pathlib import Path

from gpus import GPUS, Gpu, gpu_named

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

EXAMPLE = """\
gpu = "H100"       # what this file does not say is that of labs/gpus.py
machine = 8        # GPUs that fast links join
inside = 450e9     # bytes per second and direction between them
across = 25e9      # of a GPU's share of the network cards
rail = 256         # GPUs among which the cards reach that speed
spine = 6.25e9     # of a GPU's share of the links between rails
price = 2.1        # dollars per hour
"""


def read_cluster(path) -> Gpu:
    """Return the GPU that a TOML file describes; raise ValueError in one sentence otherwise."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # no TOML, or no text
        raise ValueError(f"{path} is no TOML: {error}") from None
    if "gpu" not in told:
        raise ValueError(
            f'{path} has to name a GPU, as in gpu = "H100"; known are {", ".join(GPUS)}'
        )
    numbers = {of.name for of in fields(Gpu)} - {"source"}
    for name, value in told.items():
        if name != "gpu" and name not in numbers:
            raise ValueError(f"{path} says {name!r}; a cluster has {', '.join(sorted(numbers))}")
        if name != "gpu" and (not isinstance(value, int | float) or value < 0):
            raise ValueError(f"{path}: {name} must be a number from 0 on, not {value!r}")
    if told.get("rail") and not told.get("spine"):
        raise ValueError(f"{path}: with rail, spine says how fast the links between rails are")
    gpu = gpu_named(told.pop("gpu"))
    return replace(gpu, **told, source=str(path))


def main():
    import tempfile

    if sys.argv[1:]:
        print(read_cluster(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.toml"
        path.write_text(EXAMPLE)
        print(EXAMPLE, read_cluster(path), sep="\n")


if __name__ == "__main__":
    main()
