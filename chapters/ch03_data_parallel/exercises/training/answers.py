# %% right · the last micro-batch stands apart; counts in a loop
# -         parts = self.options.parts
# -         pieces = list(zip(images.chunk(parts), labels.chunk(parts)))
# -         for number, (x, y) in enumerate(pieces, 1):
# -             with nullcontext() if number == len(pieces) else self.ddp.no_sync():
# -                 with self.autocast:
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# -                 part.backward()
# -             loss += part.detach()
# +         def go_back(x, y):
# +             with self.autocast:
# +                 part = F.cross_entropy(self.ddp(x), y, reduction="sum") / len(images)
# +             part.backward()
# +             return part.detach()
# +
# +         size = len(images) // self.options.parts
# +         *first, last = zip(images.split(size), labels.split(size))
# +         with self.ddp.no_sync():
# +             loss = sum((go_back(x, y) for x, y in first), 0.0)
# +         loss = loss + go_back(*last)
# -         mine = slice(dist.get_rank(), None, dist.get_world_size())
# -         self.model.eval()
# -         with torch.no_grad(), self.autocast:
# -             right = (self.model(self.tests[mine]).argmax(1) == self.test_labels[mine]).sum()
# -         self.model.train()
# -         dist.all_reduce(right)
# -         return right.item() / len(self.tests)
# +         self.ddp.eval()
# +         counts = torch.zeros(2)
# +         with torch.no_grad():
# +             for k in range(dist.get_rank(), len(self.tests), dist.get_world_size()):
# +                 guess = self.model(self.tests[k : k + 1]).argmax()
# +                 counts += torch.tensor([float(guess == self.test_labels[k]), 1.0])
# +         self.ddp.train()
# +         dist.all_reduce(counts)
# +         return float(counts[0].item() / counts[1].item())

# %% right · a gradient that is clipped by hand, a file that is renamed by pathlib
# -         nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
# +         norm = sum(p.grad.square().sum() for p in self.ddp.parameters()).sqrt()
# +         for p in self.ddp.parameters():
# +             p.grad *= min(1.0, self.options.clip / (norm.item() + 1e-6))
# -         if dist.get_rank() == 0:
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +         from pathlib import Path
# +         if dist.get_rank() == 0:
# +             unfinished = Path(self.options.file + ".unfinished")
# +             with open(unfinished, "wb") as file:
# +                 torch.save(self.state(), file)
# +             unfinished.rename(self.options.file)
# +         dist.barrier()

# %% right · the flag of DDP; a temporary file beside the checkpoint; tests in blocks
# -         pieces = list(zip(images.chunk(parts), labels.chunk(parts)))
# -         for number, (x, y) in enumerate(pieces, 1):
# -             with nullcontext() if number == len(pieces) else self.ddp.no_sync():
# -                 with self.autocast:
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# -                 part.backward()
# -             loss += part.detach()
# +         size = len(images) // parts
# +         self.optimizer.zero_grad()
# +         for k in range(0, len(images), size):
# +             self.ddp.require_backward_grad_sync = k + size >= len(images)
# +             with self.autocast:
# +                 part = F.cross_entropy(self.ddp(images[k : k + size]), labels[k : k + size])
# +             (part / parts).backward()
# +             loss += part.detach() / parts
# -         mine = slice(dist.get_rank(), None, dist.get_world_size())
# -         self.model.eval()
# -         with torch.no_grad(), self.autocast:
# -             right = (self.model(self.tests[mine]).argmax(1) == self.test_labels[mine]).sum()
# -         self.model.train()
# +         n, r = dist.get_world_size(), dist.get_rank()
# +         x, y = self.tests.tensor_split(n)[r], self.test_labels.tensor_split(n)[r]
# +         self.model.eval()
# +         with torch.inference_mode(), self.autocast:
# +             right = (self.model(x).argmax(1) == y).sum()
# +         self.model.train()
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             import tempfile
# +             folder = os.path.dirname(self.options.file) or "."
# +             with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
# +                 torch.save(self.state(), file)
# +             os.rename(file.name, self.options.file)

# %% wrong · every epoch has the same order
# -         self.sampler.set_epoch(self.epoch)

# %% wrong · every epoch has the same order
# -         self.sampler.set_epoch(self.epoch)
# +         torch.manual_seed(self.epoch)

# %% wrong · that of the next one
# -         self.sampler.set_epoch(self.epoch)
# +         self.sampler.set_epoch(self.epoch + 1)

# %% wrong · once for each micro-batch
# -             with nullcontext() if number == len(pieces) else self.ddp.no_sync():
# -                 with self.autocast:
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# -                 part.backward()
# +             with self.autocast:
# +                 part = F.cross_entropy(self.ddp(x), y) / parts
# +             with nullcontext() if number == parts else self.ddp.no_sync():
# +                 part.backward()

# %% wrong · nothing is averaged over the ranks
# -             with nullcontext() if number == len(pieces) else self.ddp.no_sync():
# +             with self.ddp.no_sync():

# %% wrong · nothing is averaged over the ranks
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# +                     part = F.cross_entropy(self.model(x), y) / parts

# %% wrong · divide by their number
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# +                     part = F.cross_entropy(self.ddp(x), y)

# %% wrong · pass through the model at once
# -         pieces = list(zip(images.chunk(parts), labels.chunk(parts)))
# +         parts = 1
# +         pieces = [(images, labels)]

# %% wrong · only the last micro-batch counts
# -             with nullcontext() if number == len(pieces) else self.ddp.no_sync():
# +             self.optimizer.zero_grad()
# +             with nullcontext() if number == parts else self.ddp.no_sync():

# %% wrong · clipped after each micro-batch
# -             loss += part.detach()
# +             nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
# +             loss += part.detach()

# %% wrong · clipped after each micro-batch
# -             loss += part.detach()
# +             loss += part.detach()
# +             if number < parts:
# +                 nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)

# %% wrong · nothing is clipped
# -         nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)

# %% wrong · nothing is clipped
# -         nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
# -         self.optimizer.step()
# +         self.optimizer.step()
# +         nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)

# %% wrong · each number is clipped by itself
# -         nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
# +         nn.utils.clip_grad_value_(self.model.parameters(), self.options.clip)

# %% wrong · nothing sets the gradients back
# -         self.optimizer.zero_grad()

# %% wrong · returns is the sum over the micro-batches
# -             loss += part.detach()
# +             loss += part.detach() * parts

# %% wrong · count twice
# -         mine = slice(dist.get_rank(), None, dist.get_world_size())
# +         mine = list(DistributedSampler(self.tests, shuffle=False))
# -         return right.item() / len(self.tests)
# +         return right.item() / (len(mine) * dist.get_world_size())

# %% wrong · counted twice
# -         mine = slice(dist.get_rank(), None, dist.get_world_size())
# +         mine = list(DistributedSampler(self.tests, shuffle=False))

# %% wrong · mean of the ranks' shares
# -         dist.all_reduce(right)
# -         return right.item() / len(self.tests)
# +         share = right / len(self.tests[mine])
# +         dist.all_reduce(share)
# +         return share.item() / dist.get_world_size()

# %% wrong · share of its own test images
# -         dist.all_reduce(right)
# -         return right.item() / len(self.tests)
# +         return right.item() / len(self.tests[mine])

# %% wrong · each rank computes all test images
# -         mine = slice(dist.get_rank(), None, dist.get_world_size())
# +         mine = slice(None)
# -         dist.all_reduce(right)

# %% wrong · keeps a graph
# -         with torch.no_grad(), self.autocast:
# +         with self.autocast:

# %% wrong · files are written by ranks
# -         if dist.get_rank() == 0:
# -             torch.save(self.state(), f"{self.options.file}.new")
# +         if True:
# +             torch.save(self.state(), f"{self.options.file}.new")

# %% wrong · broken off in the middle
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             torch.save(self.state(), self.options.file)

# %% wrong · what state() returns
# -             torch.save(self.state(), f"{self.options.file}.new")
# +             torch.save(self.ddp.state_dict(), f"{self.options.file}.new")

# %% wrong · may not communicate
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             os.replace(f"{self.options.file}.new", self.options.file)
# +             dist.barrier()

# %% wrong · has a graph
# -             loss += part.detach()
# +             loss = loss + part

# %% wrong · is in evaluation mode
# -         self.model.train()

# %% wrong · the model is in training mode
# -         self.model.eval()

# %% wrong · evaluate() calls ddp
# -             right = (self.model(self.tests[mine]).argmax(1) == self.test_labels[mine]).sum()
# +             right = (self.ddp(self.tests[mine]).argmax(1) == self.test_labels[mine]).sum()

# %% wrong · computes logits of torch.float32
# -                 with self.autocast:
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# -                 part.backward()
# +                 part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# +                 part.backward()

# %% wrong · computes a loss of torch.bfloat16
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# -                 part.backward()
# +                     logits = self.ddp(x)
# +                 part = F.cross_entropy(logits, y) / len(pieces)
# +                 part.backward()

# %% wrong · goes back inside of autocast
# -                 part.backward()
# +                     part.backward()

# %% wrong · a forward begins while the activations of 1 micro-batches
# -         for number, (x, y) in enumerate(pieces, 1):
# -             with nullcontext() if number == len(pieces) else self.ddp.no_sync():
# -                 with self.autocast:
# -                     part = F.cross_entropy(self.ddp(x), y) / len(pieces)
# -                 part.backward()
# -             loss += part.detach()
# +         *first, last = pieces
# +         def loss_of(x, y):
# +             with self.autocast:
# +                 return F.cross_entropy(self.ddp(x), y) / len(pieces)
# +         with self.ddp.no_sync():
# +             losses = [loss_of(*pair) for pair in first]
# +             for each in losses:
# +                 each.backward()
# +         losses.append(loss_of(*last))
# +         losses[-1].backward()
# +         loss = sum(each.detach() for each in losses)

# %% wrong · returns a float
# -             loss += part.detach()
# +             loss += part.item()

# %% wrong · opens the old checkpoint
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             import io
# +             data = io.BytesIO()
# +             torch.save(self.state(), data)
# +             with open(self.options.file, "wb") as file:
# +                 file.write(data.getvalue())

# %% wrong · opens the old checkpoint
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             import shutil
# +             shutil.copyfile(f"{self.options.file}.new", self.options.file)
# +             os.remove(f"{self.options.file}.new")

# %% wrong · removes the old checkpoint
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             if os.path.exists(self.options.file):
# +                 os.remove(self.options.file)
# +             os.rename(f"{self.options.file}.new", self.options.file)

# %% wrong · gives the old checkpoint another name
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             if os.path.exists(self.options.file):
# +                 os.replace(self.options.file, f"{self.options.file}.old")
# +             try:
# +                 torch.save(self.state(), self.options.file)
# +             except BaseException:
# +                 os.replace(f"{self.options.file}.old", self.options.file)
# +                 raise

# %% wrong · into another folder
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +             import tempfile
# +             with tempfile.TemporaryDirectory() as folder:
# +                 torch.save(self.state(), f"{folder}/new")
# +                 os.replace(f"{folder}/new", self.options.file)

# %% wrong · files are written by ranks 0, 1
# -         if dist.get_rank() == 0:
# -             torch.save(self.state(), f"{self.options.file}.new")
# -             os.replace(f"{self.options.file}.new", self.options.file)
# +         mine = f"{self.options.file}.{dist.get_rank()}"
# +         torch.save(self.state(), mine)
# +         if dist.get_rank() == 0:
# +             os.replace(mine, self.options.file)
# +         else:
# +             os.remove(mine)
