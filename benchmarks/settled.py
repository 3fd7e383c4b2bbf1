"""Rounds that go on until the ratios of their times are known."""

from collections.abc import Callable
from math import exp, log, sqrt
from statistics import median, stdev

LEAST, MOST = 4, 12
"""So many rounds are measured at least and at most."""
WITHIN = 0.02
"""Rounds end when each ratio is known to this part of it."""
NORMAL = 1.2533
"""How much wider a median scatters than a mean does: the root of pi/2, for normal errors."""

Round = dict[str, float]


def settled(measure: Callable[[], Round], base: str, least: int = LEAST, most: int = MOST) -> Round:
    """Measure rounds until their ratios to `base` are known within 2 %; return seconds.

    The seconds of `base` are the median of all rounds. The others follow from their median ratios:
    a round in which the machine is slow is slow for all.
    """
    rounds: list[Round] = []
    while len(rounds) < least or (len(rounds) < most and uncertainty(rounds, base) > WITHIN):
        rounds.append(measure())
    seconds = median(each[base] for each in rounds)
    return {name: seconds * exp(median(ratios(rounds, name, base))) for name in rounds[0]}


def ratios(rounds: list[Round], name: str, base: str) -> list[float]:
    """The logarithms of a name's times over those of `base`."""
    return [log(each[name] / each[base]) for each in rounds]


def uncertainty(rounds: list[Round], base: str) -> float:
    """Twice the standard error of the least certain median ratio."""
    spreads = (stdev(ratios(rounds, name, base)) for name in rounds[0])
    return 2 * NORMAL * max(spreads) / sqrt(len(rounds))
