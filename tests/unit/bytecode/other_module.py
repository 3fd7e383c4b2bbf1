"""A module whose global the tests change through an inlined function."""

count = 0


def increase(amount):
    global count
    count = count + amount


SCALE = 7


def shift(x):
    return x + SCALE
