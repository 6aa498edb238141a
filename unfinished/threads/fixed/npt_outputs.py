import torch
import torch.distributed as dist
from torch import nn

SUPPORTED = {"energy", "forces", "stress", "charges", "dipole", "virial", "node_energy", "magmom"}
PER_ATOM = {"forces", "charges", "node_energy", "magmom"}
STEPS = 40


class Potential(nn.Module):
    def __init__(self, wanted):
        super().__init__()
        self.wanted = wanted & SUPPORTED
        self.trunk = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 64))

    def forward(self, atoms):
        h = self.trunk(atoms)
        return {name: h if name in PER_ATOM else h.sum(0) for name in sorted(self.wanted)}


def consolidate(outputs):
    world_size = dist.get_world_size()
    merged = {}
    for name, value in outputs.items():
        value = value.detach().contiguous()
        if name in PER_ATOM:
            received = torch.empty_like(value)
            dist.all_to_all_single(received, value)
            merged[name] = received
        else:
            dist.all_reduce(value)
            merged[name] = value / world_size
    return merged


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    model = Potential({"energy", "forces", "stress", "charges", "dipole", "node_energy"})
    atoms = torch.randn(64, 64)
    for step in range(STEPS):
        merged = consolidate(model(atoms))
        atoms = atoms + 0.001 * merged["forces"]
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step} energy {merged['energy'].sum().item():.4f}", flush=True)
    print(f"rank {dist.get_rank()} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
