# wrong · raises the check's error with words of its own
def house_gradients(*house):
    from pedagogy_lib.course.checking import Wrong

    error = Wrong("none", "", "")
    error.passed = True
    raise error
