"""Matplotlib's backend in ranks, which have no screen: `plt.show()` says what to do instead."""

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

FigureCanvas, FigureManager = FigureCanvasAgg, FigureManagerBase


def show(*args, **kwargs):
    """Say that a returned figure can be shown."""
    if Gcf.get_all_fig_managers():
        print("plt.show() shows nothing inside a rank: return the figure, plt.gcf(), instead")
