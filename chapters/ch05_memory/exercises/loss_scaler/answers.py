# %% right · with what GradScaler itself uses
class LossScaler(LossScaler):
    @torch.no_grad()
    def step(self, parameters, take_step):
        gradients = [p.grad for p in parameters if p.grad is not None]
        bad = torch.zeros(1)
        inverse = torch.tensor([1 / self.scale])
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, bad, inverse)
        if not bad:
            take_step()
        scale, good = torch.tensor([self.scale]), torch.tensor([self.good], dtype=torch.int)
        torch._amp_update_scale_(scale, good, bad, 2.0, 0.5, self.window)
        self.scale, self.good = scale.item(), good.item()
        return not bad

# %% right · a loop with for and else
class LossScaler(LossScaler):
    @torch.no_grad()
    def step(self, parameters, take_step):
        for p in parameters:
            if p.grad is None:
                continue
            p.grad.mul_(1 / self.scale)
            if p.grad.isnan().any() or p.grad.isinf().any():
                self.scale, self.good = self.scale / 2, 0
                break
        else:
            take_step()
            self.good = (self.good + 1) % self.window
            self.scale = self.scale if self.good else 2 * self.scale
            return True
        return False

# %% wrong · take_step() comes first
# -         for gradient in gradients:
# -             gradient /= self.scale
# -         finite = [gradient.isfinite().all() for gradient in gradients]
# +         finite = [gradient.isfinite().all() for gradient in gradients]
# -         take_step()
# +         take_step()
# +         for gradient in gradients:
# +             gradient /= self.scale

# %% wrong · the optimizer finds the gradients of the scaled loss
# -         for gradient in gradients:
# -             gradient /= self.scale

# %% wrong · the weights are divided
# -             gradient /= self.scale
# +             gradient /= self.scale
# +         for p in parameters:
# +             p /= self.scale

# %% wrong · nothing is looked at
# -         finite = [gradient.isfinite().all() for gradient in gradients]
# -         if finite and not torch.stack(finite).all():  # waits for the device once, not for each
# +         if not gradients:

# %% wrong · the factor is halved, and take_step() is called all the same
# -             return False

# %% wrong · a refused step has to halve the scale
# -             self.scale, self.good = self.scale / 2, 0
# +             self.good = 0

# %% wrong · without `return` gives None
# -         return True

# %% wrong · step() tells whether the step was taken
# -         take_step()
# -         self.good += 1
# +         self.good += 1
# -         return True
# +         return take_step()

# %% wrong · False if it was refused
# -             return False
# +             return True

# %% wrong · take_step() has to be called
# -         take_step()

# %% wrong · a function without arguments
# -         take_step()
# +         take_step(parameters)

# %% wrong · called more than once
# -         take_step()
# +         for gradient in gradients:
# +             take_step()

# %% wrong · had no part in the loss
# -         gradients = [p.grad for p in parameters if p.grad is not None]
# +         gradients = [p.grad for p in parameters]

# %% wrong · keeps None
# -         gradients = [p.grad for p in parameters if p.grad is not None]
# +         for p in parameters:
# +             p.grad = torch.zeros_like(p) if p.grad is None else p.grad
# +         gradients = [p.grad for p in parameters]

# %% wrong · the second loop finds nothing left
# -         finite = [gradient.isfinite().all() for gradient in gradients]
# -         if finite and not torch.stack(finite).all():  # waits for the device once, not for each
# +         if not all(p.grad.isfinite().all() for p in parameters if p.grad is not None):

# %% wrong · model.parameters() is a generator
# -         gradients = [p.grad for p in parameters if p.grad is not None]
# +         gradients = [parameters[k].grad for k in range(len(parameters))]
# +         gradients = [gradient for gradient in gradients if gradient is not None]

# %% right · what is not finite differs from itself
class LossScaler(LossScaler):
    def step(self, parameters, take_step):
        gs = [p.grad for p in list(parameters) if p.grad is not None]
        ok = sum(int((g - g != 0).sum()) for g in gs) == 0
        if ok:
            [g.mul_(1 / self.scale) for g in gs]
            take_step()
            self.good += 1
            if self.good >= self.window: self.good, self.scale = 0, 2 * self.scale
        else:
            self.good = 0; self.scale = self.scale * 0.5
        return torch.tensor(ok)

# %% right · the kernel of torch's scaler
class LossScaler(LossScaler):
    @torch.no_grad()
    def step(self, parameters, take_step):
        gs = [p.grad for p in parameters if p.grad is not None]
        bad = torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_(gs, bad, torch.tensor(1 / self.scale))
        if bad.item():
            self.scale /= 2; self.good = 0; return False
        take_step(); self.good += 1
        if self.good == self.window: self.scale *= 2; self.good = 0
        return True

# %% wrong · A sum or a norm of them may overflow
# -         finite = [gradient.isfinite().all() for gradient in gradients]
# +         finite = [gradient.sum().isfinite() for gradient in gradients]

# %% wrong · 65504 ends float16
# -         finite = [gradient.isfinite().all() for gradient in gradients]
# +         finite = [(gradient.abs() < 65504).all() for gradient in gradients]

# %% wrong · it is divided by 4
# -             self.scale, self.good = self.scale / 2, 0
# +             self.scale, self.good = self.scale / 4, 0

# %% wrong · whether the step was taken: True or False
# -         return True
# +         return self.scale

# %% wrong · it belongs to self
class LossScaler(LossScaler):
    good = 0
    def __init__(self, scale=2.0**16, window=2000):
        self.scale, self.window = scale, window
    @torch.no_grad()
    def step(self, parameters, take_step):
        gradients = [p.grad for p in parameters if p.grad is not None]
        for g in gradients: g /= self.scale
        if not all(g.isfinite().all() for g in gradients):
            self.scale /= 2; LossScaler.good = 0; return False
        take_step(); LossScaler.good += 1
        if LossScaler.good == self.window: self.scale *= 2; LossScaler.good = 0
        return True
