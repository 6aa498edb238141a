# %% right · a class
class no_sync:
    def __init__(self, ddp):
        self.ddp = ddp

    def __enter__(self):
        self.before = self.ddp.synchronizing
        self.ddp.synchronizing = False

    def __exit__(self, *error):
        self.ddp.synchronizing = self.before

# %% right · an exit stack
@contextlib.contextmanager
def no_sync(ddp):
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, ddp, "synchronizing", ddp.synchronizing)
        ddp.synchronizing = False
        yield ddp

# %% right · mock
def no_sync(ddp):
    from unittest import mock

    return mock.patch.object(ddp, "synchronizing", False)

# %% wrong · What is in finally is run
@contextlib.contextmanager
def no_sync(ddp):
    before, ddp.synchronizing = ddp.synchronizing, False
    yield
    ddp.synchronizing = before

# %% wrong · it may have been False
# -     before, ddp.synchronizing = ddp.synchronizing, False
# +     ddp.synchronizing = False
# -         ddp.synchronizing = before
# +         ddp.synchronizing = True

# %% wrong · under no_sync it has to be False
@contextlib.contextmanager
def no_sync(ddp):
    yield

# %% wrong · is lost: gradients are set back
# -         ddp.synchronizing = before
# +         ddp.synchronizing = before
# +         ddp.zero_grad()

# %% wrong · finish() sends
# -         ddp.synchronizing = before
# +         ddp.synchronizing = before
# +         ddp.finish()

# %% wrong · has to be what it was before: True
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False
    yield

# %% wrong · and there is none
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False

# %% wrong · by @contextlib.contextmanager
# - @contextlib.contextmanager

# %% wrong · an error under it is lost
# -     finally:
# -         ddp.synchronizing = before
# +     except Exception:
# +         pass
# +     ddp.synchronizing = before

# %% wrong · exactly one
@contextlib.contextmanager
def no_sync(ddp):
    ddp.synchronizing = False
    yield
    ddp.synchronizing = True
    yield

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

# %% wrong · gradients are set back in it
# -     before, ddp.synchronizing = ddp.synchronizing, False
# +     before, ddp.synchronizing = ddp.synchronizing, False
# +     ddp.zero_grad()
