# %% right · with numpy
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return latency, 1 / slope

# %% right · by hand
def fit_line(sizes, seconds):
    n = len(sizes)
    mean_x, mean_y = sum(sizes) / n, sum(seconds) / n
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(sizes, seconds))
    slope = over / sum((x - mean_x) ** 2 for x in sizes)
    return [mean_y - slope * mean_x, 1 / slope]

# %% right · least squares of a matrix
import numpy as np
def fit_line(sizes, seconds):
    a = np.stack([np.ones(len(sizes)), np.array(sizes, float)], 1)
    found = np.linalg.lstsq(a, np.array(seconds), rcond=None)[0]
    return found[0], 1 / found[1]

# %% wrong · asked are bytes for a second
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return latency, slope

# %% wrong · in the other order
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return 1 / slope, latency

# %% right · exactly, and one after another
from fractions import Fraction
def fit_line(sizes, seconds):
    x, y = [*map(Fraction, sizes)], [*map(Fraction, seconds)]
    n, both = len(x), sum(a * b for a, b in zip(x, y))
    slope = (n * both - sum(x) * sum(y)) / (n * sum(a * a for a in x) - sum(x) ** 2)
    yield (sum(y) - slope * sum(x)) / n
    yield 1 / slope

# %% wrong · each list is sorted on its own
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sorted(sizes), sorted(seconds), 1)
    return latency, 1 / slope

# %% wrong · A dict keeps one
import numpy as np
def fit_line(sizes, seconds):
    of = dict(zip(sizes, seconds))
    slope, latency = np.polyfit(list(of), list(of.values()), 1)
    return latency, 1 / slope

# %% wrong · counts their mean, once
import numpy as np
def fit_line(sizes, seconds):
    x, y = np.array(sizes), np.array(seconds)
    each = np.unique(x)
    slope, latency = np.polyfit(each, [y[x == size].mean() for size in each], 1)
    return latency, 1 / slope

# %% wrong · below 0 s
import numpy as np
def fit_line(sizes, seconds):
    slope, latency = np.polyfit(sizes, seconds, 1)
    return max(0.0, latency), 1 / slope

# %% wrong · smallest squared distances in bytes
import numpy as np
def fit_line(sizes, seconds):
    bandwidth, start = np.polyfit(seconds, sizes, 1)
    return -start / bandwidth, bandwidth

# %% wrong · gives the slope first
import numpy as np
def fit_line(sizes, seconds):
    return np.polyfit(sizes, seconds, 1)
