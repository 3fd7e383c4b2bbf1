"""A module with a global that hides a builtin."""

from tests.unit.bytecode.break_examples import X, breaks


def bool(x):
    return x


@breaks("shadowed-builtin", X)
def global_named_like_a_builtin(x):
    try:
        if x.sum() > 0:
            x = x + 1
    finally:
        x = x * 2
    return bool(x)
