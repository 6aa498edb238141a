# wrong · raises what stops a grading
def house_gradients(*house):
    raise KeyboardInterrupt
