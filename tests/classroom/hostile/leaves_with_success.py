# wrong · ends with exit code 0 in the middle [early]
import sys


def house_gradients(*house):
    sys.exit(0)
