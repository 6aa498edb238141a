# %% right · flags first
def carry_on(campaign, crew, steps):
    def begin(campaign):
        campaign.drop()
        n = dist.get_world_size()
        if n in campaign.recipes:
            campaign.build(campaign.recipes[n])
        campaign.load()

    def step(campaign, crew):
        if dist.get_world_size() not in campaign.recipes:
            time.sleep(0.1)
            return True
        with talking():
            waits = is_true_for_any(crew.somebody_waits())
            campaign.step()
            if campaign.steps % EVERY == 0 or waits:
                campaign.save()
        return waits

    train(campaign, crew, steps, step, begin)

# %% right · a loop of its own [deep]
def carry_on(campaign, crew, steps):
    from keep_training import Lost

    is_to_meet = True
    while True:
        try:
            if is_to_meet:
                if not crew.meet():
                    return
                recipe = campaign.recipes.get(len(crew.names))
                campaign.drop()
                with talking():
                    if recipe is not None:
                        campaign.build(recipe)
                    campaign.load()
                is_to_meet = False
            if campaign.steps == steps:
                if crew.all_is_done():
                    return
                is_to_meet = True
            elif campaign.engine is None:
                time.sleep(0.1)
                is_to_meet = True
            else:
                with talking():
                    campaign.step()
                    is_to_meet = is_true_for_any(crew.somebody_waits())
                    if is_to_meet or campaign.steps % EVERY == 0:
                        campaign.save()
        except Lost:
            is_to_meet = True

# %% wrong · One is due after every EVERY steps
# -             if waits or campaign.steps % EVERY == 0:
# -                 campaign.save()
# +             campaign.save()

# %% wrong · groups of ranks that have been closed: after each meeting, build the engine anew [deep]
# -         if recipe is None:
# +         campaign.load()
# +         if recipe is None:
# -             campaign.build(recipe)
# -         campaign.load()
# +             campaign.build(recipe)

# %% wrong · And load() talks: the ranks that did not die call it, too [deep]
# -         campaign.load()
# +         if campaign.steps == 0:
# +             campaign.load()

# %% wrong · there is no recipe for so few ranks [deep]
# -         recipe = campaign.recipes.get(dist.get_world_size())
# +         recipe = campaign.recipes[dist.get_world_size()]

# %% wrong · another number of ranks than there are now [deep]
# -         recipe = campaign.recipes.get(dist.get_world_size())
# +         recipe = campaign.recipes[max(campaign.recipes)]

# %% wrong · nobody dies when newcomers come [deep]
# -             if waits or campaign.steps % EVERY == 0:
# +             if campaign.steps % EVERY == 0:

# %% wrong · Everything talks: a step, a sum, a checkpoint [deep]
def carry_on(campaign, crew, steps):
    def begin(campaign):
        campaign.drop()
        if dist.get_world_size() in campaign.recipes:
            campaign.build(campaign.recipes[dist.get_world_size()])
        campaign.load()

    def step(campaign, crew):
        if campaign.engine is None:
            return True
        campaign.step()
        waits = is_true_for_any(crew.somebody_waits())
        if waits or campaign.steps % EVERY == 0:
            campaign.save()
        return waits

    train(campaign, crew, steps, step, begin)

# %% wrong · have to say that a meeting comes next [deep]
# -             time.sleep(0.1)
# -             return True
# +             time.sleep(0.1)
# +             return False

# %% wrong · do all ranks take part in everything that talks [deep]
# -             if waits or campaign.steps % EVERY == 0:
# +             if dist.get_rank() == 0 and (waits or campaign.steps % EVERY == 0):

# %% wrong · when ranks are lost, all go back to it
# -             if waits or campaign.steps % EVERY == 0:
# -                 campaign.save()
# +             pass

# %% wrong · at the end every rank has all steps
# -     train(campaign, crew, steps, step, begin)
# +     train(campaign, crew, steps - 1, step, begin)

# %% wrong · catch_up() takes the whole state from one rank [deep]
def carry_on(campaign, crew, steps):
    from keep_training import catch_up

    def begin(campaign):
        campaign.drop()
        if dist.get_world_size() in campaign.recipes:
            campaign.build(campaign.recipes[dist.get_world_size()])
        catch_up(campaign)

    def step(campaign, crew):
        if campaign.engine is None:
            return True
        with talking():
            campaign.step()
            if campaign.steps % EVERY == 0:
                campaign.save()
            return is_true_for_any(crew.somebody_waits())

    train(campaign, crew, steps, step, begin)

# %% wrong · It is built after each meeting
def carry_on(campaign, crew, steps):
    def step(campaign, crew):
        with talking():
            campaign.step()
        return False

    train(campaign, crew, steps, step, lambda campaign: campaign.load())

# %% wrong · saved before the first step [deep]
# -             campaign.step()
# -             waits = is_true_for_any(crew.somebody_waits())
# -             if waits or campaign.steps % EVERY == 0:
# -                 campaign.save()
# +             waits = is_true_for_any(crew.somebody_waits())
# +             if campaign.steps % EVERY == 0:
# +                 campaign.save()
# +             campaign.step()
# +             if waits:
# +                 campaign.save()

# %% wrong · no checkpoint after step 16
# -             if waits or campaign.steps % EVERY == 0:
# +             if waits or campaign.steps == EVERY:

# %% wrong · no checkpoint after step 24
# -             if waits or campaign.steps % EVERY == 0:
# +             if waits or (campaign.steps % EVERY == 0 and campaign.steps < steps):

# %% wrong · each rank sees at another moment that somebody waits [deep]
# -             waits = is_true_for_any(crew.somebody_waits())
# +             waits = crew.somebody_waits()

# %% wrong · Everything talks: a step, a sum, a checkpoint [deep]
# -             if waits or campaign.steps % EVERY == 0:
# -                 campaign.save()
# +         if waits or campaign.steps % EVERY == 0:
# +             campaign.save()

# %% right · RuntimeError caught, and a largest flag [deep]
def carry_on(campaign, crew, steps):
    def begin(campaign):
        campaign.drop()
        recipe = campaign.recipes.get(len(crew.names))
        if recipe:
            campaign.build(recipe)
        campaign.load()

    def step(campaign, crew):
        if not campaign.engine:
            time.sleep(0.1)
            return True
        try:
            campaign.step()
            waits = torch.tensor(int(crew.somebody_waits()))
            dist.all_reduce(waits, op=dist.ReduceOp.MAX)
            if waits or not campaign.steps % EVERY:
                campaign.save()
        except RuntimeError:
            return True
        return waits

    return train(campaign, crew, steps, step, begin)

# %% right · no load without a recipe [deep]
def carry_on(campaign, crew, steps):
    def begin(campaign):
        n = dist.get_world_size()
        if n in campaign.recipes:
            campaign.build(campaign.recipes[n])
            campaign.load()
        else:
            campaign.drop()

    def step(campaign, crew):
        if campaign.engine is None:
            time.sleep(0.1)
            return True
        with talking():
            campaign.step()
            if is_true_for_any(crew.somebody_waits()):
                campaign.save()
                return True
            if campaign.steps % EVERY == 0:
                campaign.save()

    train(campaign, crew, steps, step, begin)
