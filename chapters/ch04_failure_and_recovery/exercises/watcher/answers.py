# %% right · two dicts
class Watcher:
    def __init__(self, patience):
        self.patience, self.last, self.since = patience, {}, {}

    def silent(self, counts, now):
        found = []
        for rank in sorted(counts):
            if self.last.get(rank) != counts[rank]:
                self.last[rank], self.since[rank] = counts[rank], now
            elif now - self.since[rank] > self.patience:
                found.append(rank)
        return found

# %% right · the whole history
class Watcher:
    def __init__(self, patience):
        self.patience, self.looks = patience, []

    def silent(self, counts, now):
        self.looks.append((dict(counts), now))
        found = []
        for rank, count in counts.items():
            same = [at for old, at in self.looks if old.get(rank) == count]
            others = [at for old, at in self.looks if old.get(rank) != count]
            first = min(at for at in same if not others or at > max(others))
            if now - first > self.patience:
                found.append(rank)
        return sorted(found)

# %% wrong · compare with !=, not with >
# -             if rank not in self.changed or self.changed[rank][0] != count:
# +             if rank not in self.changed or count > self.changed[rank][0]:

# %% wrong · this is exactly that long
# -         return sorted(rank for rank in counts if now - self.changed[rank][1] > self.patience)
# +         return sorted(rank for rank in counts if now - self.changed[rank][1] >= self.patience)

# %% wrong · its time begins, at `now`
class Watcher(Watcher):
    def silent(self, counts, now):
        for rank in counts:
            self.changed.setdefault(rank, (counts[rank], 0.0))
        return super().silent(counts, now)

# %% wrong · not how long ago the last look was
class Watcher(Watcher):
    def silent(self, counts, now):
        found = [rank for rank, count in counts.items()
                 if self.changed.get(rank, (None, 0))[0] == count
                 and now - self.changed[rank][1] > self.patience]
        self.changed |= {rank: (count, now) for rank, count in counts.items()}
        return sorted(found)

# %% wrong · counts more slowly than the others
class Watcher(Watcher):
    def silent(self, counts, now):
        behind = [r for r, count in counts.items() if count < max(counts.values()) - 40]
        return sorted({*super().silent(counts, now), *behind})

# %% wrong · sorted by their numbers
# -         return sorted(rank for rank in counts if now - self.changed[rank][1] > self.patience)
# +         return [rank for rank in counts if now - self.changed[rank][1] > self.patience]

# %% wrong · it compares the dict with itself
class Watcher:
    def __init__(self, patience):
        self.patience, self.last, self.since = patience, {}, {}

    def silent(self, counts, now):
        for rank, count in counts.items():
            if self.last.get(rank) != count or rank not in self.since:
                self.since[rank] = now
        self.last = counts
        return sorted(rank for rank in counts if now - self.since[rank] > self.patience)

# %% wrong · two watchers know of each other
class Watcher(Watcher):
    kept = {}

    def __init__(self, patience):
        super().__init__(patience)
        self.changed = self.kept

# %% wrong · its time begins, at `now`
class Watcher(Watcher):
    def __init__(self, patience):
        super().__init__(patience)
        self.started = None

    def silent(self, counts, now):
        if self.started is None:
            self.started = now
        for rank in counts:
            self.changed.setdefault(rank, (counts[rank], self.started))
        return super().silent(counts, now)

# %% wrong · gets as much time as any other
class Watcher(Watcher):
    def silent(self, counts, now):
        return sorted({*super().silent(counts, now), *[r for r in counts if counts[r] == 0]})

# %% wrong · silent() only looks at them
class Watcher(Watcher):
    def silent(self, counts, now):
        found = super().silent(counts, now)
        for rank in found:
            del counts[rank]
        return found

# %% wrong · without `return`
class Watcher(Watcher):
    def silent(self, counts, now):
        super().silent(counts, now)

# %% wrong · the rank is silent
class Watcher(Watcher):
    def silent(self, counts, now):
        return []

# %% wrong · remember it anew
class Watcher(Watcher):
    def silent(self, counts, now):
        for rank, count in counts.items():
            if rank not in self.changed:
                self.changed[rank] = [count, now]
            elif self.changed[rank][0] != count:
                self.changed[rank][1] = now
        return sorted(r for r in counts if now - self.changed[r][1] > self.patience)

# %% wrong · compare objects
class Watcher(Watcher):
    def silent(self, counts, now):
        for rank, count in counts.items():
            if rank not in self.changed or self.changed[rank][0] is not count:
                self.changed[rank] = (count, now)
        return sorted(r for r in counts if now - self.changed[r][1] > self.patience)

# %% wrong · where a clock has its 0 means nothing
class Watcher(Watcher):
    def __init__(self, patience):
        self.patience, self.last, self.since = patience, {}, {}

    def silent(self, counts, now):
        result = []
        for rank, count in counts.items():
            if not self.since.get(rank) or self.last[rank] != count:
                self.since[rank], self.last[rank] = now, count
            elif now - self.since[rank] > self.patience:
                result.append(rank)
        return sorted(result)
