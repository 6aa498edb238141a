"""Misconceptions behind wrong mean gradients, for exercise mean_gradients."""

LIST = "asked is a list of tensors, one for each parameter, in their order"
IN_PLACE = (
    "dist.all_reduce writes the sum into its tensor. What the call returns is no tensor: it is "
    "None, or a request with async_op=True"
)
SUM = "this is the sum over all micro-batches; asked is the mean: of how many?"
BY_RANKS = (
    "the sum is divided by the number of ranks. But it was added up over all m micro-batches, "
    "whoever computed them: with fewer ranks, the same batch would give another gradient"
)
OF_AVERAGES = (
    "each rank averages its own micro-batches, and these averages are averaged. As long as all "
    "ranks have equally many, that is the same. Here a micro-batch of a rank that has few counts "
    "for more than one of a rank that has many. Add up first, and divide once"
)
OWN_COUNT = (
    "the sum over all ranks is divided by what this rank has computed, times the number of ranks. "
    "Ranks may have different numbers of micro-batches; together they have m"
)
ALONE = "these are this rank's own micro-batches alone: the others' have to be added"
OWN_MEAN = (
    "this is the mean of this rank's own micro-batches; asked is that of all m, on every rank"
)
TWICE_DIVIDED = "it is divided by m, and by the number of ranks as well: once is enough"
NONE_LEFT = (
    "a rank that has no micro-batch takes part all the same: with zeros. Others wait for it in the "
    "all-reduce"
)
ZEROS = (
    "there are more ranks than micro-batches here, so a rank has none. It has no gradient whose "
    "shape it could take: `parameters` have these shapes, torch.zeros_like(parameter)"
)
TWICE = "each micro-batch is computed by one rank alone: microbatches_of(rank, n, m) says by which"
ANEW = (
    "a rank computes a micro-batch again that it has computed before: computing takes most of the "
    "time of a step. Keep what gradients_of has returned, and use it again"
)
MISSING = (
    "each rank computes all micro-batches that microbatches_of(rank, n, m) names for it: it may be "
    "several"
)
CHANGED = (
    "`parameters` belong to the caller, and only tell shapes and dtypes: add up in tensors of your "
    "own, torch.zeros_like(…)"
)
TOO_OFTEN = (
    "add up on this rank first, and call all_reduce once for each parameter, not for each "
    "micro-batch"
)
SUMMED_AGAIN = (
    "there are more all-reduces than parameters. In a loop over micro-batches, an all-reduce adds "
    "up again what is a sum over all ranks already: add up on this rank first, and sum over ranks "
    "once"
)
IN_LOOP = (
    "here some ranks have more micro-batches than others. Who calls all_reduce for each of its "
    "micro-batches, calls it more often than the others do: add up on this rank first"
)
GATHERED = (
    "the sum is enough: everybody's gradients need not come to every rank. all_reduce adds up"
)
BY_ONE = (
    "one rank has more to send than others: all others wait for it. In an all-reduce all ranks "
    "share the work"
)
SHAPED = "each gradient has the shape of its parameter: a row of numbers can be viewed as that"
ONE_BUFFER = (
    "the parameters have several dtypes here, and each gradient has that of its parameter. A "
    "buffer has one dtype: what is copied into it is rounded to that, so gradients of another "
    "dtype need another buffer"
)
SHARED = (
    "several tensors of the list lie in the same memory, so they all have what was written there "
    "last: each gradient needs memory of its own"
)
