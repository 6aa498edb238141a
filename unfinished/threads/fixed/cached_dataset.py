import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class CachedImages(Dataset):
    def __init__(self, n):
        self.n = n
        self.cache = {}
        self.lock = None

    def read(self, index):
        g = torch.Generator().manual_seed(index)
        return torch.randn(3, 16, 16, generator=g), index % 10

    def warm_up(self):
        for first in range(0, self.n, 64):
            with self.lock:
                for index in range(first, min(first + 64, self.n)):
                    time.sleep(0.004)
                    self.cache[index] = self.read(index)

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if True:
            if index not in self.cache:
                self.cache[index] = self.read(index)
            return self.cache[index]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = CachedImages(640)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=1,
                        multiprocessing_context="spawn")
    model = DDP(nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if dist.get_rank() == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
