import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, steps):
        self.model, self.steps, self.step = model, steps, 0
        self.rank = dist.get_rank()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def save(self, reason):
        name = [f"/tmp/emergency_{reason}_{self.step}.pt"]
        dist.broadcast_object_list(name, src=0)
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), name[0])

    def batch(self, generator):
        lengths = torch.randint(5, 60, (16,), generator=generator)
        if self.rank == 1 and self.step == 14:
            lengths[3] = 0
        rows = [torch.randn(int(n), 64, generator=generator) for n in lengths]
        return torch.stack([row.max(0).values for row in rows])

    def run(self):
        generator = torch.Generator().manual_seed(self.rank)
        while self.step < self.steps:
            x = self.batch(generator)
            loss = (self.model(x) - x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.rank == 0 and self.step % 5 == 0:
                print(f"step {self.step} loss {loss.item():.4f}", flush=True)
            self.step += 1

    def fit(self):
        try:
            self.run()
        except BaseException:
            raise
        self.save("final")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    trainer = Trainer(DDP(nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64))), steps=40)
    trainer.fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
