# %% right · digits
def seed_of_mask(step, sample, module):
    return (step * 1_000_000 + sample) * 1_000 + module

# %% wrong · takes only the lowest 32 bits
def seed_of_mask(step, sample, module):
    return step << 40 | sample << 10 | module

# %% wrong · each by itself
def seed_of_mask(step, sample, module):
    return (step * 1_000_000 + sample) * 1_000 + module + dist.get_rank()

# %% wrong · 1 + 2 is 2 + 1
def seed_of_mask(step, sample, module):
    return step + sample + module

# %% wrong · never learn together
def seed_of_mask(step, sample, module):
    return sample * 1_000 + module

# %% wrong · the mask of each is to be drawn for itself
def seed_of_mask(step, sample, module):
    return step * 1_000 + module

# %% wrong · two modules with the same mask
def seed_of_mask(step, sample, module):
    return step * 1_000 + sample

# %% wrong · a second call gives another seed
def seed_of_mask(step, sample, module):
    return int(torch.randint(2**60, ()))

# %% wrong · a seed is a whole number
def seed_of_mask(step, sample, module):
    return f"{step} {sample} {module}"

# %% wrong · without `return`
def seed_of_mask(step, sample, module):
    torch.manual_seed(step)

# %% wrong · a range of its own
def seed_of_mask(step, sample, module):
    return (step * 100 + sample) * 10 + module

# %% right · numpy's whole numbers
def seed_of_mask(step, sample, module):
    import numpy as np

    return np.ravel_multi_index((step, sample, module), (1000, 1_000_000, 1000))

# %% wrong · in a sum, different numbers may give the same
def seed_of_mask(step, sample, module):
    return step << 20 ^ sample << 5 ^ module

# %% wrong · different numbers may give the same
def seed_of_mask(step, sample, module):
    return (step * 1_000_000 + sample) * 500 + module

# %% wrong · different numbers may give the same
def seed_of_mask(step, sample, module):
    return (step * 500_000 + sample) * 1000 + module

# %% right · cut to 32 bits
def seed_of_mask(step, sample, module):
    return ((step * 1_000_000 + sample) * 1000 + module) % 2**32

# %% wrong · different numbers may give the same
def seed_of_mask(step, sample, module):
    return ((step << 19) + sample) * 1024 + module

# %% wrong · another one in each process
def seed_of_mask(step, sample, module):
    return hash(f"{step} {sample} {module}") % 2**63

# %% right · numpy's mixing
def seed_of_mask(step, sample, module):
    import numpy as np

    return int(np.random.SeedSequence((step, sample, module)).generate_state(1)[0])

# %% right · a digest of 64 bits
def seed_of_mask(step, sample, module):
    import hashlib

    digest = hashlib.sha256(f"{step} {sample} {module}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1

# %% wrong · takes only the lowest 32 bits
def seed_of_mask(step, sample, module):
    return (step * 2**20 + sample) * 2**10 + module

# %% wrong · takes only the lowest 32 bits
def seed_of_mask(step, sample, module):
    return module << 32 | step << 20 | sample
