# wrong · computes without end
def house_gradients(*house):
    while True:
        pass
