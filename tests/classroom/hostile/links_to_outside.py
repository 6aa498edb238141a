# right · a link in its own folder that leads out, and a hard link
import os


def house_gradients(*house):
    for make in (os.symlink, os.link):
        try:
            make(f"{SECRETS}/results.json", f"/tmp/{make.__name__}")
            open(f"/tmp/{make.__name__}", "a").write("hostile")
        except OSError:
            pass
    return honest(*house)
