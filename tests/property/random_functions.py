"""Random Python functions: most kinds of statements, always ending, without outside effects."""

from hypothesis import strategies as st

VARIABLES = ["a", "b", "c", "d"]
BINARY = ["+", "-", "*", "//", "%", "&", "|", "^"]
COMPARISONS = ["<", "<=", "==", "!=", ">", ">=", "is", "is not", "in", "not in"]
ERRORS = ["ValueError", "TypeError", "ZeroDivisionError", "(KeyError, IndexError)", "NameError"]

PRELUDE = """
class Manager:
    def __init__(self, name, swallow):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        print('enter', self.name)
        return self.name
    def __exit__(self, kind, error, trace):
        print('exit', self.name, kind)
        return self.swallow
def g(*args, k=0, **rest):
    print('g', args, k, sorted(rest))
    return len(args) + (k if isinstance(k, int) else 1)
"""


def names():
    return st.sampled_from(VARIABLES)


def atoms():
    return st.one_of(names(), st.integers(-3, 9).map(str), st.sampled_from(["None", "True", "'s'"]))


def larger(inner):
    """Expressions made of smaller ones."""
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(COMPARISONS), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["not ", "-", "~", "+"]), inner).map(lambda t: f"({t[0]}{t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} < {t[1]} <= {t[2]})"),
        pair.map(lambda t: f"[{t[0]}, {t[1]}]"),
        pair.map(lambda t: f"({t[0]}, *[{t[1]}])"),
        pair.map(lambda t: f"{{'x': {t[0]}, 'y': {t[1]}}}"),
        pair.map(lambda t: f"[{t[0]}, 5, {t[1]}][{t[1]}]"),
        pair.map(lambda t: f"[1, 2, {t[0]}][:{t[1]}]"),
        pair.map(lambda t: f"g({t[0]}, *[{t[1]}], k={t[1]})"),
        pair.map(lambda t: f"g({t[0]}, k={t[1]}, **{{'z': 1}})"),
        pair.map(lambda t: f"g({t[0]}, {t[1]})"),
        pair.map(lambda t: f"[{t[0]}].count({t[1]})"),
        pair.map(lambda t: f"f'{{{t[0]}}} {{{t[1]}!r:>6}}'"),
        pair.map(lambda t: f"(lambda p, q={t[0]}: (p, q, {t[1]}))(1)"),
        pair.map(lambda t: f"[a + 1 for a in range(3) if {t[0]}]"),
        pair.map(lambda t: f"len({{(i, j) for i in range(2) for j in [{t[0]}, {t[1]}]}})"),
        inner.map(lambda t: f"[h() for h in [(lambda: e) for e in range(3)]] + [{t}]"),
        inner.map(lambda t: f"sum(i for i in range(3) if {t})"),
    )


EXPRESSIONS = st.recursive(atoms(), larger, max_leaves=4)


def expressions():
    return EXPRESSIONS


def conditions():
    """Comparisons, mostly: among all expressions they would be rare."""
    compared = st.tuples(atoms(), st.sampled_from(COMPARISONS), atoms())
    return st.one_of(compared.map(" ".join), expressions())


def indented(lines):
    return ["    " + line for line in lines]


@st.composite
def blocks(draw, depth, in_loop):
    """One or more statements, as lines."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, in_loop))
    return lines


@st.composite
def statements(draw, depth, in_loop):
    simple = ["assign", "assign", "augmented", "print", "unpack", "delete", "assert", "rare"]
    nested = ["if", "for", "while", "try", "with", "function", "nonlocal"]
    kind = draw(st.sampled_from(simple + (nested if depth else [])))
    return draw(globals()[f"{kind}_statement"](depth - 1, in_loop))


@st.composite
def assign_statement(draw, depth, in_loop):
    return [f"{draw(names())} = {draw(expressions())}"]


@st.composite
def augmented_statement(draw, depth, in_loop):
    return [
        f"{draw(names())} {draw(st.sampled_from(['+', '-', '|', '//']))}= {draw(expressions())}"
    ]


@st.composite
def print_statement(draw, depth, in_loop):
    return [f"print({draw(conditions())})"]


@st.composite
def unpack_statement(draw, depth, in_loop):
    form = draw(
        st.sampled_from(
            ["a, b = ({0}), ({1})", "c, *d = [({0}), ({1}), 3]", "(a, b), c = ({0}), 1"]
        )
    )
    return [form.format(draw(expressions()), draw(expressions()))]


@st.composite
def delete_statement(draw, depth, in_loop):
    return [f"del {draw(names())}"]


@st.composite
def assert_statement(draw, depth, in_loop):
    return [f"assert {draw(conditions())}, {draw(expressions())}"]


@st.composite
def rare_statement(draw, depth, in_loop):
    choices = ["pass", f"return {draw(expressions())}", "raise ValueError(a)", "raise"]
    return [draw(st.sampled_from(choices + (["break", "continue"] if in_loop else [])))]


@st.composite
def if_statement(draw, depth, in_loop):
    lines = [f"if {draw(conditions())}:", *indented(draw(blocks(depth, in_loop)))]
    if draw(st.booleans()):
        lines += ["else:", *indented(draw(blocks(depth, in_loop)))]
    return lines


@st.composite
def for_statement(draw, depth, in_loop):
    iterable = draw(st.sampled_from(["range(3)", "[1, 2]", "(a, b)", "enumerate('xy')"]))
    lines = [f"for {draw(names())} in {iterable}:", *indented(draw(blocks(depth, True)))]
    if draw(st.booleans()):
        lines += ["else:", *indented(draw(blocks(depth, in_loop)))]
    return lines


@st.composite
def while_statement(draw, depth, in_loop):
    counter = f"n{depth}"
    return [
        f"{counter} = 0",
        f"while {counter} < 3:",
        f"    {counter} += 1",
        *indented(draw(blocks(depth, True))),
    ]


@st.composite
def try_statement(draw, depth, in_loop):
    lines = ["try:", *indented(draw(blocks(depth, in_loop)))]
    if handler := draw(st.booleans()):
        bound = draw(st.sampled_from(["", " as d"]))
        lines += [f"except {draw(st.sampled_from(ERRORS))}{bound}:"]
        lines += indented(draw(blocks(depth, in_loop)))
    if not handler or draw(st.booleans()):
        lines += ["finally:", *indented(draw(blocks(depth, in_loop)))]
    return lines


@st.composite
def with_statement(draw, depth, in_loop):
    swallow, name = draw(st.booleans()), draw(names())
    return [f"with Manager(1, {swallow}) as {name}:", *indented(draw(blocks(depth, in_loop)))]


@st.composite
def function_statement(draw, depth, in_loop):
    name = draw(names())
    body = indented(draw(blocks(depth, False)))
    return [f"def {name}(x, b=2, *, c=3):", *body, "    return x", f"{name} = {name}(a)"]


@st.composite
def nonlocal_statement(draw, depth, in_loop):
    shared, name = draw(st.sampled_from([("a", "b"), ("b", "c"), ("c", "d")]))
    return [
        f"def {name}():",
        f"    nonlocal {shared}",
        f"    {shared} = {draw(expressions())}",
        f"    return {shared}",
        f"print({name}(), {shared})",
    ]


@st.composite
def programs(draw):
    """The text of a program that defines `f(a, b)`."""
    body = ["c = d = 0", *draw(blocks(2, False)), "return a, b, c, d"]
    return PRELUDE + "def f(a, b):\n" + "\n".join(indented(body)) + "\n"
