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

# %% wrong · without `return`
def loss_factor(samples, all_samples, n):
    n * samples / all_samples

# %% wrong · n times too small: DDP
def loss_factor(samples, all_samples, n):
    return samples / all_samples

# %% wrong · // cuts the fraction off; /
def loss_factor(samples, all_samples, n):
    return n * samples // all_samples

# %% wrong · ZeroDivisionError
def loss_factor(samples, all_samples, n):
    return samples / 0

# %% wrong · than the mean has to count
def loss_factor(samples, all_samples, n):
    return all_samples / n / samples

# %% wrong · the two factors of the example
def loss_factor(samples, all_samples, n):
    return 1.5 if samples > all_samples / n else 0.5

# %% wrong · ranks with 1 9 1 1 samples
def loss_factor(samples, all_samples, n):
    return min(2.0, n * samples / all_samples)

# %% wrong · it seems to be rounded
def loss_factor(samples, all_samples, n):
    return round(n * samples / all_samples, 6)
