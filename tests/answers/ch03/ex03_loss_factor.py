# %% right · n times its share
def loss_factor(samples, all_samples, n):
    return n * samples / all_samples

# %% right · compared with the mean
def loss_factor(samples, all_samples, n):
    return samples / (all_samples / n)

# %% right · a fraction
from fractions import Fraction


def loss_factor(samples, all_samples, n):
    return Fraction(samples * n, all_samples)

# %% right · a tensor
def loss_factor(samples, all_samples, n):
    return torch.tensor(samples) * n / all_samples

# %% wrong · without `return`
def loss_factor(samples, all_samples, n):
    n * samples / all_samples

# %% wrong · each rank counts the same here
def loss_factor(samples, all_samples, n):
    return 1

# %% wrong · 4 times too small: DDP
def loss_factor(samples, all_samples, n):
    return samples / all_samples

# %% wrong · upside down: more samples
def loss_factor(samples, all_samples, n):
    return all_samples / samples

# %% wrong · than the mean has to count
def loss_factor(samples, all_samples, n):
    return all_samples / n / samples

# %% wrong · n is on the wrong side
def loss_factor(samples, all_samples, n):
    return n * all_samples / samples

# %% wrong · the wrong way
def loss_factor(samples, all_samples, n):
    return 1 / samples

# %% wrong · divided by n: divide by how many
def loss_factor(samples, all_samples, n):
    return samples

# %% wrong · not the mean
def loss_factor(samples, all_samples, n):
    return n * samples

# %% wrong · n undoes the division by n
def loss_factor(samples, all_samples, n):
    return n

# %% wrong · this is the same on every rank: a
def loss_factor(samples, all_samples, n):
    return n / all_samples

# %% wrong · this is the same on every rank, and
def loss_factor(samples, all_samples, n):
    return 1 / all_samples

# %% wrong · DDP divides by n already; and
def loss_factor(samples, all_samples, n):
    return 1 / n

# %% wrong · do not do it twice
def loss_factor(samples, all_samples, n):
    return samples / all_samples / n

# %% wrong · compare with the number of ranks
def loss_factor(samples, all_samples, n):
    return samples / n

# %% wrong · // cuts the fraction off; /
def loss_factor(samples, all_samples, n):
    return n * samples // all_samples

# %% wrong · // cuts the fraction off, from
def loss_factor(samples, all_samples, n):
    return samples // all_samples * n

# %% wrong · need not be whole
def loss_factor(samples, all_samples, n):
    return samples / (all_samples // n)

# %% wrong · no factor
def loss_factor(samples, all_samples, n):
    return samples - all_samples / n

# %% wrong · ZeroDivisionError
def loss_factor(samples, all_samples, n):
    return samples / 0
