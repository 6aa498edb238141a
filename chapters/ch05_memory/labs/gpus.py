"""Figures of common GPUs and of the machines that hold them, with their sources.

python labs/gpus.py
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU in a machine of several, as its maker describes it.

    flops      floating-point operations per second, for dense products in bfloat16
    memory     bytes; bandwidth: bytes per second from and to it
    inside     bytes per second and direction to other GPUs of the machine
    across     bytes per second and direction of its share of the network cards
    reach      assumed: share of `flops` that large products reach in practice. Published runs say
               0.75 and 0.9 for two engines on the A100, 0.5 for one on the H100
    machine    GPUs that fast links join (an NVLink domain): of a server, or of a whole rack
    is_shared  whether they share one network card, instead of having one each
    watts      of the GPU at full load
    price      assumed: dollars per hour. The prices of clouds differ by a factor of several
    flops_8bit, flops_4bit  like `flops`, for formats of 8 and 4 bits; 0 where there are none
    rail       GPUs among which the cards reach their full speed; 0: all of them
    spine      bytes per second and direction of a GPU's share of the links between rails
    """

    flops: float
    memory: float
    bandwidth: float
    inside: float
    across: float
    reach: float = 0.6
    machine: int = 8
    is_shared: bool = False
    watts: float = 700
    price: float = 2.5
    source: str = ""
    flops_8bit: float = 0.0
    flops_4bit: float = 0.0
    rail: int = 0
    spine: float = 0.0


NVL72 = {"inside": 900e9, "machine": 72, "flops": 2500e12, "flops_8bit": 5000e12}  # a rack
GPUS = {  # each with the network cards that its usual machine has
    "V100": Gpu(125e12, 32e9, 0.9e12, 150e9, 6.25e9, 0.7, watts=300, price=1.0,
                source="NVIDIA V100 datasheet; float16, DGX-1"),
    "A100-40GB": Gpu(312e12, 40e9, 1.555e12, 300e9, 25e9, 0.8, watts=400, price=1.5,
                     source="NVIDIA A100 datasheet, DGX A100"),
    "A100": Gpu(312e12, 80e9, 2.039e12, 300e9, 25e9, 0.8, watts=400, price=1.8,
                source="NVIDIA A100 datasheet, DGX A100"),
    "H100": Gpu(989.5e12, 80e9, 3.35e12, 450e9, 50e9, watts=700, price=2.5, flops_8bit=1979e12,
                source="NVIDIA H100 SXM datasheet, DGX H100"),
    "H800": Gpu(989.5e12, 80e9, 3.35e12, 200e9, 50e9, watts=700, price=2.0, flops_8bit=1979e12,
                source="an H100 with slower NVLink: arXiv 2505.09343, section 4.2"),
    "H20": Gpu(148e12, 96e9, 4.0e12, 450e9, 50e9, watts=400, price=1.3, flops_8bit=296e12,
               source="as reported, for NVIDIA publishes no datasheet; cards assumed like H100's"),
    "H200": Gpu(989.5e12, 141e9, 4.8e12, 450e9, 50e9, watts=700, price=3.0, flops_8bit=1979e12,
                source="NVIDIA H200 SXM datasheet"),
    "B200": Gpu(2250e12, 180e9, 7.7e12, 900e9, 50e9, watts=1000, price=5.0, flops_8bit=4500e12,
                flops_4bit=9000e12, source="NVIDIA DGX B200 datasheet"),
    "B300": Gpu(2250e12, 270e9, 8e12, 900e9, 100e9, watts=1100, price=6.0, flops_8bit=4500e12,
                flops_4bit=13500e12, source="NVIDIA HGX B300: an eighth; memory: MLPerf 6.0"),
    "GB200": Gpu(**NVL72, memory=186e9, bandwidth=8e12, across=50e9, watts=1200, price=6.0,
                 flops_4bit=10000e12, source="NVIDIA GB200 NVL72: a 72nd; memory: MLPerf 6.1"),
    "GB300": Gpu(**NVL72, memory=279e9, bandwidth=8e12, across=100e9, watts=1400, price=7.0,
                 flops_4bit=15000e12, source="NVIDIA GB300 NVL72: a 72nd"),
    "MI300X": Gpu(1307e12, 192e9, 5.3e12, 448e9, 50e9, watts=750, price=2.5, flops_8bit=2615e12,
                  source="AMD Instinct MI300X datasheet"),
    "MI325X": Gpu(1307e12, 256e9, 6e12, 448e9, 50e9, watts=1000, price=2.8, flops_8bit=2615e12,
                  source="AMD Instinct MI325X datasheet"),
    "MI355X": Gpu(2517e12, 288e9, 8e12, 537e9, 50e9, watts=1400, price=4.0, flops_8bit=5033e12,
                  flops_4bit=10066e12, source="AMD Instinct MI355X datasheet; MXFP4 in 4 bits"),
}  # fmt: skip


def gpu_named(name) -> Gpu:
    """Return a GPU by its name, in any case; raise ValueError if it is unknown."""
    found = {known.lower(): gpu for known, gpu in GPUS.items()}
    if str(name).lower() not in found:
        raise ValueError(f"no GPU is called {name!r}; known are {', '.join(GPUS)}")
    return found[str(name).lower()]


def main():
    for name, gpu in GPUS.items():
        figures = " ".join(f"{x / 1e12:6.0f}" for x in (gpu.flops, gpu.flops_8bit, gpu.flops_4bit))
        print(f"{name:10} {figures} TFLOP/s in 16, 8 and 4 bits, {gpu.memory / 1e9:.0f} GB, "
              f"{gpu.machine} in a machine")  # fmt: skip


if __name__ == "__main__":
    main()
