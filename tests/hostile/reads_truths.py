# wrong · looks for the check's own truth
def house_gradients(*house):
    from pedagogy_lib.exercises.ch01 import ex01_house_gradients

    return ex01_house_gradients.EXERCISE.truth(*house)
