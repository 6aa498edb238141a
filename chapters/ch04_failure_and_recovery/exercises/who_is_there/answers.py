# %% right · whoever makes it complete proposes, newcomers wait in get
def who_is_there(store, meeting, me, former, n, patience):
    store = dist.PrefixStore(meeting, store)
    until = time.monotonic() + patience
    store.append("names", me + ",")
    while True:
        names = [name for name in store.get("names").decode().split(",") if name]
        late = former and time.monotonic() >= until
        if len(names) == n or late or (former and not set(former) - set(names)):
            break
        if store.check(["list"]):
            break
        time.sleep(0.005)
    return store.compare_set("list", "", ",".join(sorted(names))).decode().split(",")

# %% right · names in JSON, exchanged by compare_set, in a busy loop
def who_is_there(store, meeting, me, former, n, patience):
    key, agreed, began = meeting + "/names", meeting + "/agreed", time.monotonic()
    mine, now = "", b""
    while now.decode() != mine or not mine:
        old = store.get(key).decode() if store.check([key]) else ""
        mine = json.dumps(sorted([*json.loads(old or "[]"), me]))
        now = store.compare_set(key, old, mine)
    while not store.check([agreed]):
        names = json.loads(store.get(key))
        if former and (all(one in names for one in former) or time.monotonic() - began > patience):
            store.compare_set(agreed, "", json.dumps(names))
        elif len(names) == n:
            store.compare_set(agreed, "", json.dumps(names))
    return json.loads(store.get(agreed))

# %% right · the first line counts
def who_is_there(store, meeting, me, former, n, patience):
    store.append(f"came to {meeting}", f"{me}\n")
    until = time.monotonic() + patience
    while not store.check([f"lists of {meeting}"]):
        came = store.get(f"came to {meeting}").decode().splitlines()
        if former:
            is_time = set(former).issubset(came) or time.monotonic() > until
        else:
            is_time = False
        if is_time or len(came) == n:
            store.append(f"lists of {meeting}", ",".join(sorted(came)) + "\n")
        time.sleep(0.02)
    return store.get(f"lists of {meeting}").decode().splitlines()[0].split(",")

# %% right · the newcomer sees that n have come
# -         if len(ranks) >= n or (former and all_of_them):
# +         if (not former and len(came) >= n) or (former and all_of_them):

# %% wrong · set overwrites
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             store.set(f"{meeting}: agreed", json.dumps(sorted(came)))

# %% wrong · names got lost
# -     store.append(f"{meeting}: came", f"{me},")
# +     key = f"{meeting}: came"
# +     store.set(key, (store.get(key).decode() if store.check([key]) else "") + f"{me},")

# %% wrong · between two calls
def who_is_there(store, meeting, me, former, n, patience):
    until = time.monotonic() + patience
    place = store.add(f"{meeting}: how many", 1)
    store.set(f"{meeting}: {place}", me)
    while not store.check([f"{meeting}: agreed"]):
        there = store.add(f"{meeting}: how many", 0)
        came = [store.get(f"{meeting}: {k}").decode() for k in range(1, there + 1)]
        if there == n or (former and (set(former) <= set(came) or time.monotonic() > until)):
            store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
        time.sleep(0.01)
    return json.loads(store.get(f"{meeting}: agreed"))

# %% wrong · The first proposal counts, for everybody
def who_is_there(store, meeting, me, former, n, patience):
    until = time.monotonic() + patience
    store.append(f"{meeting}: came", f"{me},")
    while True:
        came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
        late = former and time.monotonic() > until
        if len(came) >= n or late or (former and set(former) <= came):
            store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
            return sorted(came)
        if store.check([f"{meeting}: agreed"]) and not former:
            return json.loads(store.get(f"{meeting}: agreed"))
        time.sleep(0.01)

# %% wrong · who comes later gets the same list
# -     return json.loads(store.get(f"{meeting}: agreed"))
# +     return sorted({*json.loads(store.get(f"{meeting}: agreed")), me})

# %% wrong · n have come, and no more are expected
def who_is_there(store, meeting, me, former, n, patience):
    store.append(f"{meeting}: came", f"{me},")
    time.sleep(patience)
    came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
    store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
    return json.loads(store.get(f"{meeting}: agreed"))

# %% wrong · `patience` is for one that is missing
# -         all_of_them = set(former) <= came or time.monotonic() > until
# +         all_of_them = time.monotonic() > until

# %% wrong · a newcomer proposes no list before n have come
# -         if len(ranks) >= n or (former and all_of_them):
# +         if len(came) >= n or (set(former) | {me} <= came and former) or time.monotonic() > until:

# %% wrong · a newcomer proposes no list before n have come
def who_is_there(store, meeting, me, former, n, patience):
    until = time.monotonic() + patience
    store.append(f"{meeting}: came", f"{me},")
    while not store.check([f"{meeting}: agreed"]):
        came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
        is_all = len(came) >= n or (former and set(former) <= came)
        if is_all or time.monotonic() > until:
            store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
        time.sleep(0.01)
    return json.loads(store.get(f"{meeting}: agreed"))

# %% wrong · not all n have come yet, and all are newcomers
# -         if len(ranks) >= n or (former and all_of_them):
# +         if len(came) >= n or all_of_them:

# %% wrong · a list without it is proposed
# -         all_of_them = set(former) <= came or time.monotonic() > until
# +         all_of_them = set(former) <= came

# %% wrong · It may still come
# -         all_of_them = set(former) <= came or time.monotonic() > until
# +         all_of_them = True

# %% wrong · compare whole names
# -         all_of_them = set(former) <= came or time.monotonic() > until
# +         text = store.get(f"{meeting}: came").decode()
# +         all_of_them = all(name in text for name in former) or time.monotonic() > until

# %% wrong · nobody has written its name into the store
# -     store.append(f"{meeting}: came", f"{me},")
# +     store.append(f"{meeting}: came", "")

# %% wrong · newcomers as well
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             came = came & set(former) if former else came
# +             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))

# %% wrong · those who have come, and nobody else
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came | set(former))))

# %% wrong · a list is proposed at once, by newcomers, too
# -         if len(ranks) >= n or (former and all_of_them):
# +         if former and all_of_them:

# %% wrong · into every key
# -     while not store.check([f"{meeting}: agreed"]):
# +     while not store.check(["agreed"]):
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             store.compare_set("agreed", "", json.dumps(sorted(came)))
# -     return json.loads(store.get(f"{meeting}: agreed"))
# +     return json.loads(store.get("agreed"))

# %% wrong · into every key
# -     store.append(f"{meeting}: came", f"{me},")
# +     store.append("came", f"{me},")
# -         came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
# +         came = set(store.get("came").decode().split(",")) - {""}

# %% wrong · split gives an empty text
# -         came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
# +         came = set(store.get(f"{meeting}: came").decode().split(","))
# -         if len(ranks) >= n or (former and all_of_them):
# +         if len(came) > n or (former and all_of_them):

# %% wrong · there is an empty name
# -         came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
# +         came = set(store.get(f"{meeting}: came").decode().split(","))

# %% wrong · sorted: all need the same order
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             came = [c for c in store.get(f"{meeting}: came").decode().split(",") if c]
# +             store.compare_set(f"{meeting}: agreed", "", json.dumps(came))

# %% wrong · asked is a list
# -     return json.loads(store.get(f"{meeting}: agreed"))
# +     return set(json.loads(store.get(f"{meeting}: agreed")))

# %% wrong · the store gives bytes
# -     return json.loads(store.get(f"{meeting}: agreed"))
# +     return store.get(f"{meeting}: agreed")

# %% wrong · without `return`
# -     return json.loads(store.get(f"{meeting}: agreed"))

# %% wrong · such as that of the smallest name, may be dead
# -         if len(ranks) >= n or (former and all_of_them):
# +         if len(came) >= n or (former and me == former[0] and all_of_them):

# %% wrong · such as that of the smallest name, may be dead
# -         if len(ranks) >= n or (former and all_of_them):
# +         if len(came) >= n or (former and me == min(came) and all_of_them):

# %% wrong · One chosen for all, such as that of the smallest name, may be a newcomer
# -         if len(ranks) >= n or (former and all_of_them):
# +         is_mine = me == min(came) or set(former) - came  # all are there: one is enough
# +         if len(came) >= n or (former and is_mine and all_of_them):

# %% wrong · its `former` is not empty, so it is no newcomer
# -         if len(ranks) >= n or (former and all_of_them):
# +         if len(came) >= n or (set(former) - {me} and all_of_them):

# %% wrong · which each one counts from its own call
# -     until = time.monotonic() + patience
# +     began = store.compare_set(f"{meeting}: began", "", str(time.monotonic()))
# +     until = float(began.decode()) + patience

# %% wrong · a newcomer proposes no list before n have come
# -         if len(ranks) >= n or (former and all_of_them):
# +         patience_is_over = time.monotonic() > until + 4 * patience
# +         if len(came) >= n or (former and all_of_them) or patience_is_over:

# %% wrong · they do not begin anew when another one comes
# -     while not store.check([f"{meeting}: agreed"]):
# -         came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
# +     came = set()
# +     while not store.check([f"{meeting}: agreed"]):
# +         before, came = came, set(store.get(f"{meeting}: came").decode().split(",")) - {""}
# +         if came != before:
# +             until = time.monotonic() + patience

# %% wrong · `patience` seconds have passed since the call. They are counted once
# -     until = time.monotonic() + patience
# +     until = time.monotonic() + 2 * patience

# %% wrong · what two have written is two texts in JSON
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             store.append(f"{meeting}: agreed", json.dumps(sorted(came)))

# %% wrong · append adds another one
# -             store.compare_set(f"{meeting}: agreed", "", json.dumps(sorted(came)))
# +             store.append(f"{meeting}: agreed", ",".join(sorted(came)) + ",")
# -     return json.loads(store.get(f"{meeting}: agreed"))
# +     return store.get(f"{meeting}: agreed").decode().split(",")[:-1]

# %% wrong · So nobody may leave it to a newcomer to propose
# -         if len(ranks) >= n or (former and all_of_them):
# +         if (not former and len(came) >= n) or (former and len(came) < n and all_of_them):

# %% wrong · has written no list into the store
def who_is_there(store, meeting, me, former, n, patience):
    until = time.monotonic() + patience
    store.append(f"{meeting}: came", f"{me},")
    while True:
        came = set(store.get(f"{meeting}: came").decode().split(",")) - {""}
        late = former and time.monotonic() > until
        if len(came) >= n or late or (former and set(former) <= came):
            return sorted(came)
        time.sleep(0.01)

# %% wrong · asked is a list
# -     return json.loads(store.get(f"{meeting}: agreed"))
# +     return tuple(json.loads(store.get(f"{meeting}: agreed")))
