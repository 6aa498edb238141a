"""The right results, and the results of known mistakes."""


def truth(predicted, measured):
    chosen = sorted(predicted, key=lambda plan: predicted[plan])[0]
    return measured[chosen] / sorted(measured.values())[0] - 1


def make_mistake(function):
    """Return a wrong answer from a function that also takes the chosen plan and the best one."""

    def mistaken(predicted, measured):
        chosen, best = (min(times, key=times.get) for times in (predicted, measured))
        return function(predicted, measured, chosen, best)

    return mistaken


MISTAKES = [
    (
        "this is the error of the prediction. Regret asks what the chosen plan takes, beside "
        "the best one; both are measured.",
        make_mistake(lambda p, m, chosen, best: abs(p[chosen] / m[chosen] - 1)),
    ),
    *(
        (
            "this is the error of the prediction. Regret asks what the chosen plan takes, "
            "beside the best one; both are measured.",
            make_mistake(error),
        )
        for error in (
            lambda p, m, chosen, best: p[chosen] / m[chosen] - 1,
            lambda p, m, chosen, best: m[chosen] / p[chosen] - 1,
            lambda p, m, chosen, best: abs(m[chosen] / p[chosen] - 1),
            lambda p, m, *_: sum(abs(p[k] / m[k] - 1) for k in p) / len(p),
        )
    ),
    (
        "this compares a prediction with a measurement. Both times of regret are measured.",
        make_mistake(lambda p, m, chosen, best: p[chosen] / m[best] - 1),
    ),
    (
        "this compares a prediction with a measurement. Both times of regret are measured.",
        make_mistake(lambda p, m, chosen, best: m[best] / p[chosen] - 1),
    ),
    (
        "these are predicted times. The plan is chosen by prediction, but both times of regret "
        "are measured.",
        make_mistake(lambda p, m, chosen, best: p[best] / p[chosen] - 1),
    ),
    (
        "min(measured) is the first name, not the plan with the shortest time.",
        make_mistake(lambda p, m, chosen, best: m[chosen] / m[min(m)] - 1),
    ),
    (
        "the best one may be the chosen one itself: then the regret is 0, and not less.",
        make_mistake(
            lambda p, m, chosen, best: (
                m[chosen] / min((m[k] for k in m if k != chosen), default=m[chosen]) - 1
            )
        ),
    ),
    (
        "this takes the first plan, by its place or by its name, whatever is predicted. "
        "min(predicted) compares names.",
        lambda p, m: m[min(p)] / min(m.values()) - 1,
    ),
    (
        "this is the ratio. Regret is what comes on top: 0 if the best one is chosen.",
        make_mistake(lambda p, m, chosen, best: m[chosen] / m[best]),
    ),
    (
        "this is the difference in seconds; asked is a share of the best one's time.",
        make_mistake(lambda p, m, chosen, best: m[chosen] - m[best]),
    ),
    (
        "this is a share of the chosen one's time; asked is one of the best one's.",
        make_mistake(lambda p, m, chosen, best: 1 - m[best] / m[chosen]),
    ),
    (
        "this chooses the plan that is predicted to be slowest.",
        lambda p, m: m[max(p, key=p.get)] / min(m.values()) - 1,
    ),
    (
        "this takes the slowest of all plans beside the best one, whatever was predicted.",
        lambda p, m: max(m.values()) / min(m.values()) - 1,
    ),
    (
        "this chooses by what was measured. Before the run, only the predictions are known.",
        lambda p, m: 0.0,
    ),
    (
        "this takes the measured plan that stands in the same place. The plans have names: "
        "the two dicts may be in different order.",
        lambda p, m: list(m.values())[list(p).index(min(p, key=p.get))] / min(m.values()) - 1,
    ),
]
