"""Fits that calibrate a model, and runs to predict."""

from statistics import mean, median

X, Y = [1, 2, 3, 4, 5, 6], [2.0, 4.5, 5.0, 9.0, 10.5, 12.0]


def fit_mean(x, y):
    """Return a function that predicts the mean of y, whatever x is."""
    level = mean(y)
    return lambda x: level


def fit_slope(x, y):
    """Return a function that predicts x times the median of all ratios y / x."""
    slope = median(b / a for a, b in zip(x, y, strict=True))
    return lambda x: slope * x


def fit_nearest(x, y):
    """Return a function that predicts the y of the nearest x, the smaller of two equally near."""
    pairs = sorted(zip(x, y, strict=True))
    return lambda at: min(pairs, key=lambda pair: abs(pair[0] - at))[1]
