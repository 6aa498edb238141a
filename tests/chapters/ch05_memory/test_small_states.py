"""Adam with smaller states: in float32 it is torch's; optimizers that need a whole matrix."""

import pytest
import torch
from helpers import ROOT

from coursekit.labs import Lab
from pedagogy_lib import close

PATHS = {name: ROOT / "solutions" / "labs" / f"{name}.py"
         for name in ("small_states", "matrix_optimizers")}  # fmt: skip
SMALL, MATRIX = (Lab(name, path, path) for name, path in PATHS.items())


def weights(steps, make_optimizer):
    torch.manual_seed(0)
    layers = [torch.nn.Parameter(torch.randn(5, 7)), torch.nn.Parameter(torch.randn(3))]
    optimizer = make_optimizer(layers)
    for _ in range(steps):
        for p in layers:
            p.grad = torch.randn_like(p)
        optimizer.step()
    return [p.detach() for p in layers], optimizer


def test_in_float32_it_is_torchs_adam():
    ours, _ = weights(20, lambda layers: SMALL.WAYS["float32"].optimizer(layers, 1e-2))
    theirs, _ = weights(20, lambda layers: torch.optim.Adam(layers, lr=1e-2))
    assert close(ours, theirs, steps=20)


@pytest.mark.parametrize(("way", "each"), [("bfloat16 states", 4), ("8 bits, roots", 2)])
def test_bytes_of_a_state(way, each):
    _, optimizer = weights(1, lambda layers: SMALL.WAYS[way].optimizer(layers, 1e-2))
    kept = sum(x.nbytes for state in optimizer.state.values()
               for packed in (state["mean"], state["square"]) for x in packed)  # fmt: skip
    scales = 2 * 2 * 4 if way.startswith("8 bits") else 0  # two tensors of one block each
    assert kept == each * (35 + 3) + scales


def test_no_root_comes_back_as_zero():
    roots = SMALL.EightBitRoots(4)
    back = roots.unpack(*roots.pack(torch.tensor([1.0, 1e-9, 0.25, 0.0])), (4,))
    assert (back > 0).all()
    assert back[0].item() == pytest.approx(1.0)


def test_newton_and_schulz_leave_the_directions():
    torch.manual_seed(0)
    u, s, v = torch.linalg.svd(torch.randn(12, 8).double(), full_matrices=False)
    found = u.T @ MATRIX.orthogonalize(u @ torch.diag(s) @ v) @ v.T
    off_diagonal = found - torch.diag(found.diag())
    assert close(off_diagonal, torch.zeros_like(off_diagonal))
    assert ((found.diag() > 0.5) & (found.diag() < 1.5)).all()
