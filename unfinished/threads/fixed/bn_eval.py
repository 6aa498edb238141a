import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EPOCHS, STEPS, BATCH = 3, 12, 32


def build():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 5))


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)
    model = DDP(build(), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images, labels = torch.randn(960, 3, 12, 12), torch.arange(960) % 5
    images += labels.view(-1, 1, 1, 1) * 0.3
    mine = torch.arange(rank, 960, world_size)
    test_x, test_y = torch.randn(200, 3, 12, 12), torch.arange(200) % 5
    test_x += test_y.view(-1, 1, 1, 1) * 0.3
    for epoch in range(EPOCHS):
        model.train()
        for _ in range(STEPS):
            pick = mine[torch.randint(0, len(mine), (BATCH // world_size,))]
            loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        for name, b in model.named_buffers():
            if b.is_floating_point():
                dist.all_reduce(b)
                b /= world_size
        with torch.no_grad():
            logits = model(test_x)
        accuracy = (logits.argmax(1) == test_y).float().mean().item()
        loss = nn.functional.cross_entropy(logits, test_y).item()
        print(f"epoch {epoch} rank {rank} test accuracy {accuracy:.4f} loss {loss:.5f}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
