# %% right · a loop
def is_whole(checkpoint):
    try:
        with open(Path(checkpoint) / LIST) as file:
            files = json.load(file)["files"]
        for name in files:
            data = (checkpoint / name).read_bytes()
            if len(data) != files[name]["bytes"]:
                return False
            if hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
                return False
        return True
    except Exception:
        return False

# %% right · sizes first, without reading
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / "files.json").read_bytes())["files"].items()
        sizes = all((checkpoint / n).stat().st_size == note["bytes"] for n, note in files)
        return sizes and all(note_of((checkpoint / n).read_bytes())["sha256"] == note["sha256"]
                             for n, note in files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False

# %% wrong · only the checksum tells
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        return all((checkpoint / n).stat().st_size == note["bytes"] and note["sha256"]
                   and (checkpoint / n).is_file() for n, note in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False

# %% wrong · it has another number of bytes
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        return all((checkpoint / name).exists() for name in files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False

# %% wrong · is nothing unusual
def is_whole(checkpoint):
    files = json.loads((checkpoint / LIST).read_text())["files"]
    return all(note_of((checkpoint / name).read_bytes()) == note for name, note in files.items())

# %% wrong · is nothing unusual
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        return all(note_of((checkpoint / n).read_bytes()) == note for n, note in files.items())
    except FileNotFoundError:
        return False

# %% wrong · the last one, too
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        for name, note in files.items():
            data = (checkpoint / name).read_bytes()
            if len(data) != note["bytes"]:
                return False
            if name == "rank-0.pt" and note_of(data) != note:
                return False
        return True
    except Exception:
        return False

# %% wrong · it says what belongs to the checkpoint
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        there = {path.name for path in checkpoint.iterdir()} - {LIST}
        return there == set(files) and all(
            note_of((checkpoint / n).read_bytes()) == note for n, note in files.items())
    except Exception:
        return False

# %% wrong · it returned None
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        for name, note in files.items():
            if note_of((checkpoint / name).read_bytes()) != note:
                return False
    except Exception:
        return False

# %% wrong · a file of the list may be missing
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        return all(note_of(path.read_bytes()) == files[path.name]
                   for path in checkpoint.glob("rank-*") if path.name in files)
    except Exception:
        return False

# %% wrong · is_whole only looks
def is_whole(checkpoint):
    try:
        files = json.loads((checkpoint / LIST).read_text())["files"]
        whole = all(note_of((checkpoint / n).read_bytes()) == note for n, note in files.items())
    except Exception:
        whole = False
    if not whole:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return whole
