# %% right · only those that are trained, and all at once
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.parameters = [p for p in parameters if p.requires_grad]
        copies = [torch.empty_like(p, dtype=torch.float32) for p in self.parameters]
        torch._foreach_copy_(copies, [p.detach() for p in self.parameters])
        self.masters = list(map(nn.Parameter, copies))
        self.optimizer = make_optimizer(self.masters)

    @torch.no_grad()
    def step(self):
        have = [(m, p) for m, p in zip(self.masters, self.parameters) if p.grad is not None]
        for m, p in have:
            m.grad = torch.empty_like(m).copy_(p.grad)
        self.optimizer.step()
        torch._foreach_copy_(self.parameters, self.masters)
        for x in self.masters + self.parameters:
            x.grad = None

# %% right · a dictionary, and only what has stepped is rounded
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.master_of = {p: nn.Parameter(p.float()) for p in parameters}
        self.optimizer = make_optimizer(list(self.master_of.values()))

    def step(self):
        stepped = [p for p in self.master_of if p.grad is not None]
        for p in stepped:
            self.master_of[p].grad = p.grad.float()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for p in stepped:
                p.set_(self.master_of[p].to(p))
                p.grad = None

# %% right · masters that are plain leaves
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [p.detach().float().requires_grad_() for p in self.parameters]

# %% right · masters that ask for no gradient
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [p.detach().float() for p in self.parameters]

# %% wrong · gets the bfloat16 parameters themselves
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = self.parameters

# %% wrong · copies, but not in float32
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [nn.Parameter(p.detach().clone()) for p in self.parameters]

# %% wrong · twice the bytes that a master has
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [nn.Parameter(p.detach().double()) for p in self.parameters]

# %% wrong · __init__ ends with make_optimizer
# -         self.optimizer = make_optimizer(self.masters)
# +         self.optimizer = torch.optim.SGD(self.masters, lr=0.05)

# %% wrong · with the same shape and the same values
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         flat = torch.cat([p.detach().flatten() for p in self.parameters])
# +         self.masters = [nn.Parameter(flat.float())]

# %% wrong · is a leaf of its own
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [p.float() for p in self.parameters]

# %% wrong · __init__ makes self.masters
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         masters = [nn.Parameter(p.detach().float()) for p in self.parameters]

# %% wrong · do not belong together
# -         self.parameters = [p for p in self.parameters if p.requires_grad]
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [nn.Parameter(p.float()) for p in self.parameters if p.requires_grad]

# %% wrong · made anew from the rounded parameters
# -             master.grad = None if p.grad is None else p.grad.float()
# +             master.data = p.data.float()
# +             master.grad = None if p.grad is None else p.grad.float()

# %% wrong · others have been made since
# -     def step(self):
# +     def step(self):
# +         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]

# %% wrong · the parameters do not get them
# -             p.copy_(master)
# +             p = master.to(p.dtype)

# %% wrong · step() has to call self.optimizer.step()
# -         self.optimizer.step()

# %% wrong · one call of step() is one step
# -         self.optimizer.step()
# +             self.optimizer.step()

# %% wrong · the next backward adds to it
# -             p.grad = None

# %% wrong · zeros are a gradient, and take as many bytes
# -             p.grad = None
# +             if p.grad is not None:
# +                 p.grad.zero_()

# %% wrong · a master's gradient is needed during the step alone
# -         self.optimizer.zero_grad()

# %% wrong · a parameter may have no gradient
# -             master.grad = None if p.grad is None else p.grad.float()
# +             master.grad = p.grad.float()

# %% wrong · the gradient has two bytes a number
# -             master.grad = None if p.grad is None else p.grad.float()
# +             master.grad = p.grad

# %% wrong · as the decorator of step() does
# -     @torch.no_grad()

# %% wrong · no longer one of two bytes a number
# -             p.copy_(master)
# +             p.data = master.data

# %% wrong · which may be bfloat16 or float16
# -             p.copy_(master)
# +             p.data = master.data.bfloat16()

# %% wrong · gradients, or copies?
# -             p.grad = None
# +             p.last, p.grad = p.grad, None

# %% wrong · one more float32 copy of everything
# -             p.grad = None
# +             p.grad = None
# +         before = [master.clone() for master in self.masters]

# %% right · hooks of the optimizer
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        super().__init__(parameters, make_optimizer)
        def pre(*_):
            for p, m in zip(self.parameters, self.masters):
                m.grad = None if p.grad is None else p.grad.float(); p.grad = None
        def post(*_):
            with torch.no_grad():
                for p, m in zip(self.parameters, self.masters): p.copy_(m); m.grad = None
        self.optimizer.register_step_pre_hook(pre); self.optimizer.register_step_post_hook(post)
    def step(self): self.optimizer.step()

# %% right · views into one flat tensor
class MixedPrecision(MixedPrecision):
    def __init__(self, parameters, make_optimizer):
        self.parameters = list(parameters)
        flat = torch.cat([p.detach().float().reshape(-1) for p in self.parameters])
        self.masters = [nn.Parameter(x.view_as(p)) for p, x in zip(self.parameters, flat.split([p.numel() for p in self.parameters]))]
        self.optimizer = make_optimizer(self.masters)

# %% wrong · it can be gone through once
# -         self.parameters = list(dict.fromkeys(parameters))  # a tied one once
# -         self.parameters = [p for p in self.parameters if p.requires_grad]
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.parameters = parameters
# +         self.masters = [nn.Parameter(p.detach().float()) for p in parameters]

# %% wrong · each parameter has a master, a frozen one as well
# -         self.parameters = [p for p in self.parameters if p.requires_grad]
# -         self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
# +         self.masters = [nn.Parameter(p.detach().float()) if p.requires_grad else None for p in self.parameters]
# -         self.optimizer = make_optimizer(self.masters)
# +         self.optimizer = make_optimizer([m for m in self.masters if m is not None])
# -         for p, master in zip(self.parameters, self.masters):
# -             is_own = p == master.to(p.dtype)  # else something has written into the parameter
# -             master.copy_(torch.where(is_own, master, p))

# %% wrong · make it once, in __init__
# -         self.optimizer.step()
# +         self.optimizer = self.make(self.masters); self.optimizer.step()
# -         self.optimizer = make_optimizer(self.masters)
# +         self.make = make_optimizer; self.optimizer = make_optimizer(self.masters)

# %% wrong · gradients, or copies?
# -             p.grad = None
# +             self.kept = getattr(self, "kept", []) + [master.grad]
# +             p.grad = None
