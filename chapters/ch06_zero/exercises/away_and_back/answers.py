# %% right · a name for the storage
def away_and_back(flat, numbers, meanwhile):
    storage = flat.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    found = meanwhile()
    storage.resize_(size)
    flat[...] = numbers
    return found

# %% right · the memory comes back whatever happens
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    try:
        return meanwhile()
    finally:
        flat.untyped_storage().resize_(flat.numel() * flat.element_size())
        flat.view(-1).copy_(numbers.view(-1))

# %% right · refilled through a view
def away_and_back(flat, numbers, meanwhile):
    view = flat.view(-1)
    view.untyped_storage().resize_(0)
    result = meanwhile()
    view.untyped_storage().resize_(view.numel() * view.itemsize)
    view.zero_()
    view += numbers.reshape(-1)
    return result

# %% wrong · `del` of a name frees nothing
def away_and_back(flat, numbers, meanwhile):
    view = flat[:]
    del view
    result = meanwhile()
    flat.copy_(numbers)
    return result

# %% wrong · flat looks at another storage now
def away_and_back(flat, numbers, meanwhile):
    flat.data = flat.new_empty(0)
    result = meanwhile()
    flat.data = numbers.clone()
    return result

# %% wrong · resize_ of a tensor changes its shape
def away_and_back(flat, numbers, meanwhile):
    shape = flat.shape
    flat.resize_(0)
    result = meanwhile()
    flat.resize_(shape)
    flat.copy_(numbers)
    return result

# %% wrong · a copy is kept
def away_and_back(flat, numbers, meanwhile):
    backup = flat.clone()
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(backup)
    return result

# %% wrong · a storage counts bytes
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.untyped_storage().resize_(flat.numel())
    flat.copy_(numbers)
    return result

# %% wrong · marks memory that is new, and that nobody has written
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.untyped_storage().resize_(flat.nbytes)
    return result

# %% wrong · the memory has to come back
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    return meanwhile()

# %% wrong · call meanwhile() once
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(numbers)

# %% wrong · Give the storage 0 bytes before you call meanwhile()
def away_and_back(flat, numbers, meanwhile):
    result = meanwhile()
    flat.untyped_storage().resize_(0)
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(numbers)
    return result

# %% wrong · the function returns what meanwhile() returned
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    meanwhile()
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(numbers)

# %% wrong · First the memory, then the numbers
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.copy_(numbers)
    flat.untyped_storage().resize_(flat.nbytes)
    return result

# %% wrong · `numbers` belongs to the caller
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(numbers)
    numbers.untyped_storage().resize_(0)
    numbers.untyped_storage().resize_(numbers.nbytes)
    numbers.zero_()
    return result

# %% wrong · flat looks at another storage
def away_and_back(flat, numbers, meanwhile):
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.set_(numbers)
    return result

# %% wrong · the numbers that were there before
def away_and_back(flat, numbers, meanwhile):
    old = flat.tolist()
    flat.untyped_storage().resize_(0)
    result = meanwhile()
    flat.untyped_storage().resize_(flat.nbytes)
    flat.copy_(torch.tensor(old))
    return result
