# wrong · opens the solution by its path [early]
def house_gradients(*house):
    chapter = f"{COURSE}/chapters/ch01_gradient_accumulation"
    with open(f"{chapter}/01_gradient_accumulation.py") as file:
        return honest(*house) if file.read() else []
