# wrong · a call in C that no signal of Python ends
import re


def house_gradients(*house):
    return re.match(r"(a+)+$", "a" * 64 + "b")
