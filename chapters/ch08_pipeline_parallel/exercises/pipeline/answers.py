# %% right · ranks of the world, and irecv
# -         x = self.inputs[i] if self.is_first(chunk) else self.receive(action)
# -         if self.is_last(chunk):
# -             with self.around(action):
# -                 self.losses.append(self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)))
# +         if not self.is_first(chunk):
# +             x = self.receive(action)
# -             with self.around(action):
# -                 y = self.stages[chunk].forward(i, x)
# -             self.send(y, action)
# +             x = self.inputs[i]
# +         then = [lambda logits: self.part_of_loss(i, logits)] if self.is_last(chunk) else []
# +         with self.around(action):
# +             y = self.stages[chunk].forward(i, x, *then)
# +         (self.losses.append if then else partial(self.send, action=action))(y)
# -         x = torch.empty(*self.inputs[action.microbatch].shape, self.width, dtype=self.dtype)
# -         peer = (self.rank + (-1 if action.kind == "F" else 1)) % self.ranks
# -         if peer == self.rank:
# +         step = -1 if action.kind == "F" else 1
# +         if self.ranks == 1:
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         peer = (self.rank + step) % self.ranks
# +         peer = dist.get_global_rank(self.group or dist.group.WORLD, peer)
# +         x = torch.zeros((*self.inputs[action.microbatch].shape, self.width), dtype=self.dtype)
# +         dist.irecv(x, peer, self.line(action), tag_of(action)).wait()

# %% right · a request that is waited for
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         request = dist.irecv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         request.wait()

# %% wrong · only "F" asks for inputs
# -         peer = (self.rank + (-1 if action.kind == "F" else 1)) % self.ranks
# +         peer = (self.rank - 1) % self.ranks

# %% wrong · in a group of some ranks it is not
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         dist.recv(x, src=peer, tag=tag_of(action))

# %% wrong · `src` is a rank of the whole world
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         dist.recv(x, group=self.line(action), src=peer, tag=tag_of(action))

# %% wrong · nobody sends them
# -         x = self.inputs[i] if self.is_first(chunk) else self.receive(action)
# +         x = self.receive(action)

# %% wrong · this is the size of another micro-batch
# -         x = torch.empty(*self.inputs[action.microbatch].shape, self.width, dtype=self.dtype)
# +         x = torch.empty(*self.inputs[0].shape, self.width, dtype=self.dtype)

# %% wrong · Without a dtype it takes the default one
# -         x = torch.empty(*self.inputs[action.microbatch].shape, self.width, dtype=self.dtype)
# +         x = torch.empty(*self.inputs[action.microbatch].shape, self.width)

# %% wrong · recv gets the message of its own tag
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         dist.recv(x, group=self.line(action), group_src=peer)

# %% wrong · tell, not the rank alone
# -         if self.is_last(chunk):
# +         if self.rank == self.ranks - 1:

# %% wrong · is outside of it
# -         x = self.inputs[i] if self.is_first(chunk) else self.receive(action)
# +         with self.around(action):
# +             x = self.inputs[i] if self.is_first(chunk) else self.receive(action)
# +             then = [partial(self.part_of_loss, i)] if self.is_last(chunk) else []
# +             y = self.stages[chunk].forward(i, x, *then)
# -             with self.around(action):
# -                 self.losses.append(self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)))
# +             self.losses.append(y)
# -             with self.around(action):
# -                 y = self.stages[chunk].forward(i, x)

# %% wrong · behind the model's last stage there is nobody
# -             self.send(y, action)
# +         self.send(self.losses[-1] if self.is_last(chunk) else y, action)

# %% wrong · the micro-batch's own mean
# -                 self.losses.append(self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)))
# +                 mean = lambda logits: self.loss_of(logits, self.targets[i])
# +                 self.losses.append(self.stages[chunk].forward(i, x, mean))

# %% wrong · the next stage is on the same rank
# -         if peer == self.rank:
# -             return self.own.pop(tag_of(action))
# +         if peer is None:
# +             return self.own.pop(tag_of(action))

# %% wrong · a rank of the group, such as
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         dist.recv(x, group=self.group, src=peer, tag=tag_of(action))

# %% wrong · a rank of the group, such as
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         src = dist.get_rank() if self.ranks == 2 else peer
# +         dist.recv(x, group=self.group, src=src, tag=tag_of(action))

# %% wrong · receives through another group than self.line(action)
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         dist.recv(x, group=self.group, group_src=peer, tag=tag_of(action))

# %% wrong · every micro-batch has the same share
# -                 self.losses.append(self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)))
# +                 part = lambda logits: self.loss_of(logits, self.targets[i]) / len(self.inputs)
# +                 self.losses.append(self.stages[chunk].forward(i, x, part))

# %% wrong · self.send keeps each until the end of the step
# -             self.send(y, action)
# +             line, peer = self.line(action, sending=True), (self.rank + 1) % self.ranks
# +             dist.isend(y, group=line, group_dst=peer, tag=tag_of(action))

# %% wrong · as under 1F1B
# -         if self.waits:
# +         if not self.waits:

# %% wrong · append what that stage's forward returns
# -                 self.losses.append(self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)))
# +                 self.stages[chunk].forward(i, x, partial(self.part_of_loss, i))

# %% wrong · receives through another group than self.line(action)
# -         dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action))
# +         line = self.line(action, sending=True)
# +         dist.recv(x, group=line, group_src=peer, tag=tag_of(action))
