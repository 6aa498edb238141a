# %% right · clamp, and a product
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = F.embedding(place.clamp(0, len(self.weight) - 1), self.weight)
# +         return self.leave(rows * mine.unsqueeze(-1), self.group)

# %% right · only where there is something
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = self.weight.new_zeros(*tokens.shape, self.weight.shape[1])
# +         rows[mine] = self.weight[place[mine]]
# +         return self.leave(rows, self.group)

# %% right · a row of zeros for all others, in place
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         padded = F.pad(self.weight, (0, 0, 0, 1))
# +         rows = padded[place.masked_fill(~mine, -1)]
# +         return self.leave(rows, self.group)

# %% right · zeroed in place, in the graph
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = self.weight[place % len(self.weight)]
# +         rows[~mine] = 0
# +         return self.leave(rows, self.group)

# %% wrong · what is added for them is zeros: multiply by mine, or use where
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         return self.leave(rows, self.group)

# %% wrong · added up nowhere: self.leave
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         return rows * mine.unsqueeze(-1)

# %% wrong · flatten or reshape copies where it has to
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# +         rows = self.weight[place.where(mine, 0).view(-1)].view(*tokens.shape, -1)

# %% wrong · the sum of sums has every row n times
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = rows * mine.unsqueeze(-1)
# +         return self.leave(self.leave(rows, self.group), self.group)

# %% wrong · in 07g another one takes its place
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         return AllReduce.apply(rows * mine.unsqueeze(-1), self.group)

# %% wrong · Here it is self.leave
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = rows * mine.unsqueeze(-1)
# +         dist.all_reduce(rows, group=self.group)
# +         return rows

# %% wrong · the first token of each rank is left out
# -         mine = (place >= 0) & (place < len(self.weight))
# +         mine = (place > 0) & (place < len(self.weight))

# %% wrong · give it the rows in their final shape
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = rows * mine.unsqueeze(-1)
# +         return self.leave(rows.flatten(0, -2), self.group).view(rows.shape)

# %% wrong · is the only message
# -         place = tokens - self.first
# +         tokens = tokens.clone()
# +         dist.broadcast(tokens, group_src=0, group=self.group)
# +         place = tokens - self.first

# %% wrong · -= is not
# -         place = tokens - self.first
# -         mine = (place >= 0) & (place < len(self.weight))
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# +         tokens -= self.first
# +         mine = (tokens >= 0) & (tokens < len(self.weight))
# +         rows = F.embedding(tokens.where(mine, 0), self.weight)

# %% wrong · a function without `return`
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         self.leave(rows * mine.unsqueeze(-1), self.group)

# %% wrong · hand `group` to every call
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         return self.leave(rows * mine.unsqueeze(-1))

# %% wrong · put zeros in its place
# -         mine = (place >= 0) & (place < len(self.weight))
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         return self.leave(F.embedding(place, self.weight), self.group)

# %% wrong · A negative index counts from the end
# -         place = tokens - self.first
# -         mine = (place >= 0) & (place < len(self.weight))
# -         rows = F.embedding(place.where(mine, 0), self.weight)
# +         rows = self.weight[(tokens - self.first).clamp(max=len(self.weight) - 1)]
# +         mine = tokens < self.first + len(self.weight)

# %% wrong · also one that has none of the tokens
# -         return self.leave(rows.where(mine.unsqueeze(-1), 0), self.group)
# +         rows = rows * mine.unsqueeze(-1)
# +         return self.leave(rows, self.group) if mine.any() else rows
