# wrong · takes all memory
def house_gradients(*house):
    held = []
    while True:
        held.append(bytearray(b"x") * 2**28)
