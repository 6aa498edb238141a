# %% given
class RestorableTraining(Training):
    """The other half of an answer, right."""

    def load_state_dict(self, state):
        for part in ("model", "optimizer", "schedule", "scaler"):
            getattr(self, part).load_state_dict(state[part])
        self.epoch, self.position, self.steps = state["epoch"], state["position"], state["steps"]
        torch.set_rng_state(state["torch"])
        random.setstate(state["python"])

    def all_of_it(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
            "position": self.position,
            "steps": self.steps,
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
        }

# %% right · one name each
class Training(RestorableTraining):
    def state_dict(self):
        return self.all_of_it()

# %% right · with copies, and numbers and generators in parts of their own
class Training(Training):
    def state_dict(self):
        parts = {name: copy_of(getattr(self, name).state_dict())
                 for name in ("model", "optimizer", "schedule", "scaler")}
        numbers = {name: getattr(self, name) for name in ("epoch", "position", "steps")}
        return parts | {"numbers": numbers, "chance": [torch.get_rng_state(), random.getstate()]}

    def load_state_dict(self, state):
        for name in ("model", "optimizer", "schedule", "scaler"):
            getattr(self, name).load_state_dict(state[name])
        for name, number in state["numbers"].items():
            setattr(self, name, number)
        torch.set_rng_state(state["chance"][0])
        random.setstate(state["chance"][1])

# %% wrong · has nothing called "model"
class Training(RestorableTraining):
    def state_dict(self):
        return {"parts": self.all_of_it()}

    def load_state_dict(self, state):
        super().load_state_dict(state["parts"])

# %% wrong · has nothing called "optimizer" AdamW keeps two moments
class Training(Training):
    def state_dict(self):
        return {"model": self.model.state_dict()}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])

# %% wrong · the schedule counts its own steps
class Training(RestorableTraining):
    def state_dict(self):
        return self.all_of_it()

    def load_state_dict(self, state):
        fresh = copy_of(self.schedule.state_dict())
        super().load_state_dict(state)
        self.schedule.load_state_dict(fresh)

# %% wrong · the scaler has grown
class Training(RestorableTraining):
    def state_dict(self):
        return self.all_of_it() | {"scaler": torch.amp.GradScaler("cpu").state_dict()}

# %% wrong · the samples of each epoch are shuffled
class Training(RestorableTraining):
    def state_dict(self):
        return self.all_of_it() | {"epoch": 0}

# %% wrong · the epoch is read from its beginning again
class Training(RestorableTraining):
    def state_dict(self):
        return self.all_of_it() | {"position": 0}

# %% wrong · dropout draws from torch's generator
class Training(RestorableTraining):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        torch.manual_seed(0)

    def state_dict(self):
        return self.all_of_it()

# %% wrong · on each rank its own
class Training(RestorableTraining):
    def state_dict(self):
        of_rank_0 = torch.get_rng_state()
        dist.broadcast(of_rank_0, 0)
        return self.all_of_it() | {"torch": of_rank_0}

# %% wrong · Python's `random` draws
class Training(RestorableTraining):
    def load_state_dict(self, state):
        ours = random.getstate()
        super().load_state_dict(state)
        random.setstate(ours)

    def state_dict(self):
        return self.all_of_it()

# %% wrong · nobody knows at which step
class Training(RestorableTraining):
    def state_dict(self):
        return self.all_of_it() | {"steps": 0}

# %% wrong · make no new ones
class Training(RestorableTraining):
    def load_state_dict(self, state):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        super().load_state_dict(state)

    def state_dict(self):
        return self.all_of_it()

# %% wrong · state_dict() only looks
class Training(RestorableTraining):
    def state_dict(self):
        torch.manual_seed(self.steps)
        return self.all_of_it()

# %% wrong · all else could run a program
class Training(Training):
    def state_dict(self):
        return {"everything": self.optimizer}

# %% wrong · it returns a dict
class Training(Training):
    def state_dict(self):
        self.model.state_dict()
