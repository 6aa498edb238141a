# %% right · a class
class no_sync:
    def __init__(self, ddp):
        self.ddp = ddp

    def __enter__(self):
        self.before = self.ddp.synchronizing
        self.ddp.synchronizing = False

    def __exit__(self, *error):
        self.ddp.synchronizing = self.before

# %% right · mock
def no_sync(ddp):
    from unittest import mock

    return mock.patch.object(ddp, "synchronizing", False)

# %% wrong · What is in finally is run
# -     try:
# -         yield
# -     finally:
# -         ddp.synchronizing = before
# +     yield
# +     ddp.synchronizing = before

# %% wrong · it may have been False
# - = before
# + = True

# %% wrong · under no_sync it has to be False
# - ddp.synchronizing, False
# + ddp.synchronizing, True

# %% wrong · is lost: gradients are set back in it, at its end
# -         ddp.synchronizing = before
# +         ddp.synchronizing = before
# +         ddp.zero_grad()

# %% wrong · gradients are set back in it, at its beginning
# -     before, ddp.synchronizing = ddp.synchronizing, False
# +     before, ddp.synchronizing = ddp.synchronizing, False
# +     ddp.zero_grad()

# %% wrong · finish() sends
# -         ddp.synchronizing = before
# +         ddp.synchronizing = before
# +         ddp.finish()

# %% wrong · has to be what it was before: True
# - = before
# + = False

# %% wrong · and there is none
# -     try:
# -         yield
# -     finally:
# -         ddp.synchronizing = before

# %% wrong · by @contextlib.contextmanager
# - @contextlib.contextmanager

# %% wrong · an error under it is lost
# -     finally:
# -         ddp.synchronizing = before
# +     except Exception:
# +         pass
# +     ddp.synchronizing = before

# %% wrong · exactly one
# -         ddp.synchronizing = before
# +         ddp.synchronizing = before
# +         yield

# %% wrong · Ours has `synchronizing`
@contextlib.contextmanager
def no_sync(ddp):
    with ddp.no_sync():
        yield

# %% wrong · synchronizing was False before
@contextlib.contextmanager
def no_sync(ddp, depth=[0]):
    depth[0] += 1
    ddp.synchronizing = False
    try:
        yield
    finally:
        depth[0] -= 1
        ddp.synchronizing = not depth[0]

# %% wrong · To silence all_reduce is not enough
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.all_reduce = ddp.all_reduce, lambda x, group=None: lambda: None
    try:
        yield
    finally:
        ddp.all_reduce = before

# %% right · a stack of what to put back
@contextlib.contextmanager
def no_sync(ddp):
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, ddp, "synchronizing", ddp.synchronizing)
        ddp.synchronizing = False
        yield

# %% wrong · after KeyError, ddp.synchronizing is False
@contextlib.contextmanager
def no_sync(ddp):
    was, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    except RuntimeError:
        ddp.synchronizing = was
        raise
    if not ddp.synchronizing:
        ddp.synchronizing = was

# %% wrong · an error under it is lost: whoever
@contextlib.contextmanager
def no_sync(ddp):
    was, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    except RuntimeError:
        pass
    finally:
        ddp.synchronizing = was

# %% wrong · after KeyboardInterrupt, ddp.synchronizing is False
@contextlib.contextmanager
def no_sync(ddp):
    was, ddp.synchronizing = ddp.synchronizing, False
    try:
        yield
    except Exception:
        ddp.synchronizing = was
        raise
    ddp.synchronizing = was

# %% wrong · start_over() forgets buckets that have begun
# -         ddp.synchronizing = before
# +         ddp.synchronizing = before
# +         ddp.start_over()

# %% wrong · the model is in another mode than before
# -     try:
# +     ddp.eval()
# +     try:

# %% wrong · nothing is switched until `with` enters it
class no_sync:
    def __init__(self, ddp):
        self.ddp, self.before = ddp, ddp.synchronizing
        ddp.synchronizing = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.ddp.synchronizing = self.before
