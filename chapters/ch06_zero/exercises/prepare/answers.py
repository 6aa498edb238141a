# %% right · shapes first, and rank 0's weights as a state dict
def prepare(make_model, mesh, make_optimizer, limit):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
    weights = make_model().state_dict() if dist.get_rank() == 0 else {}
    model = make_model().to("meta")
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    model.to_empty(device="cpu")
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, weights, options=options)
    optimizer = make_optimizer(model.parameters())
    def step(inputs, targets):
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), limit)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return model, step

# %% right · the norm by hand
# -         nn.utils.clip_grad_norm_(model.parameters(), limit)
# +         shards = [p.grad.to_local() for p in model.parameters()]
# +         square = sum(shard.square().sum() for shard in shards)
# +         dist.all_reduce(square)
# +         for shard in shards:
# +             shard *= min(1.0, limit / square.sqrt().item())

# %% right · weights as an object
# -     for tensor in (*model.parameters(), *model.buffers()):
# -         dist.broadcast(tensor.detach(), 0)
# +     found = [model.state_dict()]
# +     dist.broadcast_object_list(found, 0)
# +     model.load_state_dict(found[0])

# %% wrong · it does not broadcast rank 0's weights
# -     for tensor in (*model.parameters(), *model.buffers()):
# -         dist.broadcast(tensor.detach(), 0)

# %% wrong · Send the whole weights before they are cut
# -     for tensor in (*model.parameters(), *model.buffers()):
# -         dist.broadcast(tensor.detach(), 0)

# -     optimizer = make_optimizer(model.parameters())
# +     for p in model.parameters():
# +         own = p.to_local().detach()
# +         part = own.new_zeros(-(-len(p) // dist.get_world_size()), *own.shape[1:])
# +         part[: len(own)] = own
# +         dist.broadcast(part, 0)
# +         own.copy_(part[: len(own)])
# +     optimizer = make_optimizer(model.parameters())

# %% wrong · gathered again at once
# -     for unit in (*model.blocks, model):
# -         fully_shard(unit, mesh=mesh)
# +     for unit in (*model.blocks, model):
# +         fully_shard(unit, mesh=mesh, reshard_after_forward=True)

# %% wrong · that is the whole model
# -     for unit in (*model.blocks, model):
# -         fully_shard(unit, mesh=mesh)
# +     for unit in (*model.blocks, model):
# +         fully_shard(unit, mesh=mesh, reshard_after_forward=False)

# %% wrong · FSDP2 has averaged already
# -         loss.backward()
# +         (loss / mesh.size()).backward()

# %% wrong · ranks scale their parts by different factors
# -         nn.utils.clip_grad_norm_(model.parameters(), limit)
# +         shards = [p.grad.to_local() for p in model.parameters()]
# +         norm = torch.stack([shard.norm() for shard in shards]).norm()
# +         for shard in shards:
# +             shard *= (limit / norm).clamp(max=1.0)

# %% wrong · it comes before the step
# -         nn.utils.clip_grad_norm_(model.parameters(), limit)

# -         optimizer.step()
# +         optimizer.step()
# +         nn.utils.clip_grad_norm_(model.parameters(), limit)

# %% wrong · each parameter is clipped by itself
# -         nn.utils.clip_grad_norm_(model.parameters(), limit)
# +         for p in model.parameters():
# +             nn.utils.clip_grad_norm_([p], limit)

# %% wrong · Was the optimizer made of the parameters before
# -     for unit in (*model.blocks, model):
# -         fully_shard(unit, mesh=mesh)

# -     optimizer = make_optimizer(model.parameters())
# +     optimizer = make_optimizer(model.parameters())
# +     for block in model.blocks:
# +         fully_shard(block, mesh=mesh)
# +     fully_shard(model, mesh=mesh)

# %% wrong · a unit for each block
# -     for unit in (*model.blocks, model):
# -         fully_shard(unit, mesh=mesh)
# +     fully_shard(model, mesh=mesh)

# %% wrong · it is sharded last, with all that is left
# -     for unit in (*model.blocks, model):
# +     for unit in model.blocks:

# %% wrong · nothing clears the gradients
# -         optimizer.zero_grad()

# %% wrong · asked is this rank's loss
# -         return loss.detach()
# +         dist.all_reduce(loss.detach())
# +         return loss.detach() / mesh.size()

# %% wrong · keeps the activations of the step alive
# -         return loss.detach()
# +         return loss

# %% wrong · step() returns nothing
# -         return loss.detach()

# %% wrong · no hook has gathered its units
# -         loss = F.mse_loss(model(inputs), targets)
# +         loss = F.mse_loss(model.forward(inputs), targets)

# %% wrong · this is the mean of the ranks' weights
# -         dist.broadcast(tensor.detach(), 0)
# +         dist.all_reduce(tensor.detach())
# +         tensor.detach().div_(mesh.size())

# %% wrong · something grows with the steps
# -     def step(inputs, targets):
# +     losses = []
# +     def step(inputs, targets):
# -         return loss.detach()
# +         losses.append(loss)
# +         return loss.detach()

# %% wrong · It would go on like that
# -     def step(inputs, targets):
# +     kept = []
# +     def step(inputs, targets):
# -         nn.utils.clip_grad_norm_(model.parameters(), limit)
# +         nn.utils.clip_grad_norm_(model.parameters(), limit)
# +         kept.extend(p.grad.clone() for p in model.parameters())

# %% wrong · asked are two values
# -     return model, step
# +     return model
