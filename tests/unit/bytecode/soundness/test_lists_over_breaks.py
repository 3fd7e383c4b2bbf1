"""Lists that loops fill and walk through while the graph breaks."""

import pytest
import torch

import minitorch2

X = torch.tensor([0.5, 2.0, 1.5, -0.25])


def grown_in_front_of_the_break(x):
    found, chosen = [], []
    for value, place in zip(x.tolist(), x.argsort().tolist(), strict=True):
        found.append((value, place))
    found.sort(key=lambda pair: -pair[0])
    for pair in found:
        if pair[1] == 1:
            chosen.append(pair)
    return found, chosen


def reversed_while_it_grows(x):
    found, chosen = [1.0], []
    print(end="")
    found += x.tolist()
    for value in reversed(found):
        chosen.append(value)
        print(end="")
    return chosen


def shorter_behind_the_break(x):
    found, seen = [1, 2, 3, 4], []
    print(end="")
    for each in found:
        seen.append(each)
        if each == 3:
            del found[1:]
        print(end="")
        if each == 1:
            found.append(5)
    return seen, found, x + 1


def beams(x, width=2):
    """Keeps the best sequences, as a decoder of language does."""
    alive, done = [(0.0, [0], x)], []
    for _ in range(3):
        candidates = []
        for score, sequence, state in alive:
            values, places = (state + sequence[-1]).log_softmax(-1).topk(width)
            for value, place in zip(values.tolist(), places.tolist(), strict=True):
                candidates.append((score + value, [*sequence, place], state * 1.1))
        candidates.sort(key=lambda each: -each[0])
        alive = []
        for each in candidates:
            (done if each[1][-1] == 3 else alive).append(each)
            if len(alive) == width:
                break
    return max(done + alive, key=lambda each: each[0] / len(each[1]))


PROGRAMS = [grown_in_front_of_the_break, reversed_while_it_grows, shorter_behind_the_break, beams]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("inlined", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_element_is_met_once(program, inlined, dynamic):
    """Regression: an iterator was made while its list was empty, so it began again.

    In ``beams`` a name for a shared path was that of a parameter of the continuation.
    """
    called = torch.no_grad()(program) if inlined else program
    compiled = minitorch2.compile(called, backend="eager", dynamic=dynamic)
    for x in (X, X.flip(0), X + 1):
        for _ in range(2):
            torch.testing.assert_close(compiled(x), program(x))
