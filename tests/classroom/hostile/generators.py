# wrong · raises what ends the check's own loop
def house_gradients(*house):
    raise StopIteration(honest(*house))
