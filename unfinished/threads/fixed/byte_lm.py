import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, LENGTH, BATCH, STEPS = 256, 32, 32, 40


class ByteModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 64)
        self.rnn = nn.GRU(64, 96, batch_first=True)
        self.head = nn.Linear(96, VOCAB)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens[:, :-1]))
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), tokens[:, 1:].flatten())


def process_one_batch(model, batch):
    world_size = dist.get_world_size()
    loss = model(batch)
    shown = loss.detach() / world_size
    dist.all_reduce(shown)
    return loss, shown.item()


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(11)
    text = torch.cumsum(torch.randint(0, 3, (4000,)), 0) % VOCAB
    model = DDP(ByteModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for step in range(STEPS):
        starts = torch.randint(0, len(text) - LENGTH, (BATCH,))[rank::world_size]
        batch = torch.stack([text[s:s + LENGTH] for s in starts])
        loss, shown = process_one_batch(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 9:
            print(f"step {step} loss {shown:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
