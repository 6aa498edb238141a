# wrong · raises the check's error with words of its own
def house_gradients(*house):
    from coursekit.protocol import Wrong

    error = Wrong("none", "", "")
    error.passed = True
    raise error
