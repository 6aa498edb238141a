# %% right · with os alone
def write_whole(path, data):
    unfinished = f"{path}.new"
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view):]
        os.fsync(file)
        os.rename(unfinished, path)
    except OSError:
        os.unlink(unfinished)
        raise
    finally:
        os.close(file)
    sync_folder(os.path.dirname(path) or ".")

# %% wrong · pile up, one for each crash
def write_whole(path, data):
    path = Path(path)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.remove(file.name)
            raise
    sync_folder(path.parent)

# %% wrong · pile up, one for each crash
# -     unfinished = path.with_name(f"{path.name}.unfinished")
# +     unfinished = path.with_name(f"{path.name}.{os.getpid()}")

# %% right · what was left is removed first
# -         with open(unfinished, "wb") as file:
# +         unfinished.unlink(missing_ok=True)
# +         with open(unfinished, "xb") as file:

# %% wrong · the file itself is opened for writing
def write_whole(path, data):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(Path(path).parent)

# %% wrong · the file itself is opened for writing
def write_whole(path, data):
    Path(path).write_bytes(data)

# %% wrong · between removing the old file and renaming
# -         os.replace(unfinished, path)
# +         path.unlink(missing_ok=True)
# +         unfinished.rename(path)

# %% wrong · the operating system, which brings it to the disk when it likes
# -             file.flush()
# -             os.fsync(file.fileno())

# %% wrong · Python keeps the last bytes in a buffer
# -             file.flush()

# %% wrong · a folder is a kind of file, too
# -     sync_folder(path.parent)

# %% wrong · a folder is a kind of file, too
# -         os.replace(unfinished, path)
# -     except BaseException:
# +         sync_folder(path.parent)
# +         os.replace(unfinished, path)
# +     except BaseException:
# -         raise
# -     sync_folder(path.parent)
# +         raise

# %% wrong · takes room on a full disk
# -     except BaseException:
# -         unfinished.unlink(missing_ok=True)
# -         raise
# +     finally:
# +         pass

# %% wrong · let the error go on to the caller
# -         unfinished.unlink(missing_ok=True)
# -         raise
# +         unfinished.unlink(missing_ok=True)
# +         return

# %% wrong · derive its name from that of the file
# -     unfinished = path.with_name(f"{path.name}.unfinished")
# +     unfinished = path.with_name("unfinished")

# %% wrong · derive its name from that of the file
# -     unfinished = path.with_name(f"{path.name}.unfinished")
# +     unfinished = path.with_suffix(".unfinished")

# %% wrong · not with "xb"
# -         with open(unfinished, "wb") as file:
# +         with open(unfinished, "xb") as file:

# %% wrong · another folder may be on another disk
# -     unfinished = path.with_name(f"{path.name}.unfinished")
# +     unfinished = Path(tempfile.gettempdir(), f"{path.name}.unfinished")

# %% wrong · the folder has the file, and nothing else
# -     sync_folder(path.parent)
# +     sync_folder(path.parent)
# +     path.with_name("backup").write_bytes(data)

# %% wrong · it raised AttributeError
# -     path = Path(path)

# %% wrong · the file has to have the name
# -         os.replace(unfinished, path)

# %% wrong · all of it, as it is
# -             file.write(data)
# +             file.write(data[:-1])
