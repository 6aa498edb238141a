"""The tests whose numbers depend on the processor, under the arithmetic of several processors.

PyTorch and MKL choose their kernels by the processor. PyTorch can be told to take those of another
one, and MKL those that are the same everywhere. With another number of threads, outside of ranks,
sums are taken in another order. So one machine shows what tests do on many. Of the twelve
combinations, six have every pair of settings. The plain tests are one of them, with all threads.
The tests are dealt among the other five: each notebook, exercise or file of tests comes under one
of them, always the same. `make test-kernels` does so:

python tests/support/kernels.py COMMAND…          pytest's, to which `-m kernels` is added
python tests/support/kernels.py --each COMMAND…   every test under every setting; takes hours
"""

import os
import re
import subprocess
import sys
import time

SHARE = "KERNELS_SHARE"  # the environment's name for which of the shares is marked: "2 of 5"

# What PyTorch is told, and oneDNN, of which PyTorch asks what the processor can do.
CAPABILITIES = {
    "without AVX": ("default", "SSE41"), "AVX2": ("avx2", "AVX2"), "this processor's": (None, None),
}  # fmt: skip
MKL = {"as it likes": None, "the same everywhere": "COMPATIBLE"}
SETTINGS = [
    ("without AVX", "as it likes", 1), ("without AVX", "the same everywhere", 2),
    ("AVX2", "as it likes", 2), ("AVX2", "the same everywhere", 1),
    ("this processor's", "the same everywhere", 1),
]  # fmt: skip


def tell_onednn():
    """Tell oneDNN of the processor that ATEN_CPU_CAPABILITY names, if that is set.

    PyTorch's attention asks oneDNN what the processor can do, and fails if the two disagree.
    """
    isa = dict(CAPABILITIES.values()).get(os.environ.get("ATEN_CPU_CAPABILITY"))
    if isa:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", isa)


def settings():
    """Each row of the table: what it is called, and the environment that makes it so."""
    for torch_kernels, mkl, threads in SETTINGS:
        isa, onednn = CAPABILITIES[torch_kernels]
        wanted = {"ATEN_CPU_CAPABILITY": isa, "ONEDNN_MAX_CPU_ISA": onednn, "MKL_CBWR": MKL[mkl],
                  "OMP_NUM_THREADS": str(threads)}  # fmt: skip
        name = f"torch {torch_kernels:16} MKL {mkl:19} threads {threads}"
        yield name, {key: value for key, value in wanted.items() if value}


def select_share(pieces, share: str | None) -> set[str]:
    """Those of the pieces that a share has; all of them, if no share is named.

    pieces   names of what is dealt as a whole
    """
    if not share:
        return set(pieces)
    number, count = map(int, share.split(" of "))
    return set(sorted(set(pieces))[number::count])


def run(command, environ) -> tuple[int, str]:
    """The exit status of the tests, and what they printed."""
    done = subprocess.run(
        [*command, "-q", "-m", "kernels"], env=os.environ | environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def main(command) -> int:
    failed = 0
    each = command[0] == "--each"
    for number, (name, environ) in enumerate(settings()):
        share = {} if each else {SHARE: f"{number} of {len(SETTINGS)}"}
        began = time.monotonic()
        status, text = run(command[each:], environ | share)
        closing = re.sub(" in .*", "", text.strip().splitlines()[-1].strip("= "))
        print(f"{name}  {closing}, {time.monotonic() - began:.0f} s", flush=True)
        if status:
            failed += 1
            print(text, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
