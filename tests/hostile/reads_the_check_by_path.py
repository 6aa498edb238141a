# wrong · looks for any file of an exercise
import os


def house_gradients(*house):
    found = []
    for top in ("/sandbox", COURSE, SECRETS, "/root", "/work", "/home"):
        found += [path for path, _, files in os.walk(top) if "exercises/ch" in path and files]
    return honest(*house) if found else None
