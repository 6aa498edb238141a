# Built from chapters/ch10_choosing_a_strategy/labs/roofline.py by `make build`.
"""The speed of products: limited by computing, or by the memory that the numbers come from.

python labs/roofline.py
"""

import time
from statistics import median

import torch


def roof(intensity, flops, bandwidth):
    """Return the FLOP/s that a kernel can reach at best.

    intensity  FLOPs per byte that it reads or writes
    flops      floating-point operations per second of the processor; bandwidth: bytes per second
    Source     Williams, Waterman and Patterson 2009
    """
    return min(flops, intensity * bandwidth)


def product_costs(n, k, itemsize=4) -> tuple[int, int]:
    """Return the FLOPs of a product of (n, n) and (n, k), and the fewest bytes that it moves."""
    return 2 * n * n * k, itemsize * (n * n + 2 * n * k)


def seconds_of(function, rounds=5) -> float:
    """Return the median seconds of some calls, after two that do not count."""
    times = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return median(times[2:])


def measure_products(n=4096, most=512) -> list[tuple[float, float]]:
    """Measure (intensity, FLOP/s) of products of one matrix with 1, 2, 4, … columns."""
    matrix, found, k = torch.randn(n, n), [], 1
    while k <= most:
        columns = torch.randn(n, k)
        flops, nbytes = product_costs(n, k)
        found.append((flops / nbytes, flops / seconds_of(lambda c=columns: matrix @ c)))
        k *= 2
    return found


def measure_bandwidth(numbers=20_000_000) -> float:
    """Measure the bytes per second that go from memory to the processor and back."""
    x = torch.ones(numbers)
    return 2 * x.nbytes / seconds_of(lambda: x.mul_(1.0001))


def main():
    print(f"memory: {measure_bandwidth() / 1e9:.0f} GB/s")
    for intensity, flops in measure_products():
        print(f"{intensity:6.1f} FLOPs a byte: {flops / 1e9:6.1f} billion FLOPs a second")


if __name__ == "__main__":
    main()
