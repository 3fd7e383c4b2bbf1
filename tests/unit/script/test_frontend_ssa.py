"""The steps to SSA form: names, loops and exits become values; CPython is the judge."""

import random

import pytest

from minitorch2.script.frontend.exit_transform import exit_transform
from minitorch2.script.frontend.to_ssa import to_ssa
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.types import BOOL, INT, NONE, OptionalType
from minitorch2.script.syntax.errors import ScriptError
from tests.unit.script.small_scripts import assert_as_python, graph_of

CALLS = [(n,) for n in range(-2, 9)]


def count(graph, kind):
    return sum(node.kind == kind for node in graph.nodes())


def constants(graph):
    return [node.attributes["value"] for node in graph.nodes() if node.kind == "prim::Constant"]


def test_names_of_branches_become_outputs():
    text = """
def f(n):
    x = n
    if n > 3:
        x = x + 1
        y = 1
    else:
        y = 2
    return x + y
"""
    graph = assert_as_python(text, CALLS)
    (branch,) = (node for node in graph.nodes() if node.kind == "prim::If")
    assert [output.name for output in branch.outputs] == ["x", "y"]
    assert not {"prim::Store", "prim::Load"} & {node.kind for node in graph.nodes()}


def test_names_of_loops_are_carried():
    text = """
def f(n):
    total = 0
    for i in range(n):
        j = 0
        while j < i:
            total = total + j
            j = j + 1
    return total
"""
    graph = assert_as_python(text, CALLS)
    outer, inner = (node for node in graph.nodes() if node.kind == "prim::Loop")
    assert len(outer.outputs) == 1  # `j` is not known before the outer loop
    assert {output.name for output in inner.outputs} == {"total", "j"}


def test_continue_computes_the_condition_anew_as_in_the_overview():
    text = """
def f(i):
    while i < 5:
        if i == 3:
            i = i + 1
            continue
        i = i + 2
    return i
"""
    graph = assert_as_python(text, CALLS)
    # Before the loop, at the continue, and at the end of the body.
    comparisons = [n for n in graph.nodes() if n.attributes.get("op") == "<"]
    assert len(comparisons) == 3


def test_a_flag_says_whether_an_exit_of_an_inner_branch_was_taken():
    text = """
def f(n):
    if n > 1:
        if n > 4:
            return 7
        n = n + 1
    return n
"""
    graph = assert_as_python(text, CALLS)
    assert "did_exit" in str(graph)


def test_a_flag_that_repeats_a_condition_is_the_condition():
    text = """
def f(n):
    for i in range(n):
        if i > 2:
            if n == 7:
                return i
        n = n + 1
    return n * 2
"""
    graph = assert_as_python(text, [(n,) for n in range(9)])
    assert count(graph, "prim::If") == 4
    flags = [node for node in graph.nodes() for v in node.outputs if v.name == "did_exit"]
    assert [node.kind for node in flags] == ["prim::Loop", "prim::If"]


def test_early_returns_need_no_flags():
    lines = "".join(f"    if n == {i}:\n        return {i * i}\n" for i in range(6))
    graph = assert_as_python(f"def f(n):\n{lines}    return n\n", CALLS)
    assert "did_exit" not in str(graph)
    assert count(graph, "prim::If") == 6
    assert not any(isinstance(value, bool) for value in constants(graph))


def test_a_return_leaves_nested_loops():
    text = """
def f(n):
    for i in range(n):
        for j in range(i):
            if i * j > 8:
                return i + j
            log(i + j)
        if i == 5:
            break
        log(i)
    return n
"""
    assert_as_python(text, CALLS)


def test_code_after_branches_that_raise_or_return_is_removed():
    text = """
def f(n):
    if n < 0:
        raise RuntimeError("raised")
    else:
        return n * n
    log(n)
"""
    graph = assert_as_python(text, CALLS)
    assert count(graph, "test::log") == 0
    (branch,) = (node for node in graph.nodes() if node.kind == "prim::If")
    assert branch.blocks[0].outputs[0].node.kind == "prim::Uninitialized"


def test_with_leaves_its_context_before_each_exit():
    text = """
def f(n):
    while n < 6:
        with enter(n), enter(n * 2):
            y = n + 1
            if n == 3:
                break
            if n == 4:
                return n
            if n == 1:
                n = n + 2
                continue
            log(y)
        n = n + 1 + y * y
    log(n)
    return n
"""
    graph = assert_as_python(text, CALLS)
    assert count(graph, "prim::With") == 0
    assert count(graph, "prim::Enter") == count(graph, "prim::Exit") == 2


def test_a_name_that_is_not_always_set_is_an_error_with_its_line():
    with pytest.raises(ScriptError, match=r"`x` has no value here") as caught:
        graph_of("def f(n):\n    if n > 1:\n        x = 1\n    return x\n")
    assert caught.value.code == "script-unset-name"


def test_a_refined_type_survives_a_continue():
    """The overview's reason to erase loads and stores before exits."""
    optional = OptionalType(INT)
    graph = Graph("f")
    condition, other = graph.add_input("c", BOOL), graph.add_input("d", BOOL)

    def node(kind, inputs=(), outputs=(), **attributes):
        made = graph.insert(graph.create(kind, inputs, outputs))
        made.attributes.update(attributes)
        return made

    loop = node("prim::Loop", [graph.constant(3)])
    body, again = loop.add_block(), loop.add_block()
    body.add_input("i", INT)
    with graph.inserting_at_end(again):
        again.add_output(graph.constant(True))
    with graph.inserting_at_end(body):
        branch = node("prim::If", [condition])
        then, otherwise = branch.add_block(), branch.add_block()
        with graph.inserting_at_end(then):
            inner = node("prim::If", [other])
            leaving, _ = inner.add_block(), inner.add_block()
            with graph.inserting_at_end(leaving):
                none = graph.constant(None, type=NONE)
                wide = node("prim::unchecked_cast", [none], [optional]).output
                node("prim::Store", [wide], name="x")
                node("prim::Continue")
            node("prim::Store", [graph.constant(1)], name="x")
        with graph.inserting_at_end(otherwise):
            node("prim::Store", [graph.constant(2)], name="x")
        printed = node("prim::Print", [node("prim::Load", (), [INT], name="x").output])
    node("prim::Return", [graph.constant(0)])
    to_ssa(graph)
    exit_transform(graph)
    assert printed.inputs[0].type == INT


# Random programs


class Writer:
    """Writes a random function of three ints."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def function(self):
        body = self.block(4, 0, False) + self.block(4, 0, False)
        return f"def f(a, b, c):\n{body}    return {self.value()}\n"

    def pick(self, *choices):
        return self.random.choice(choices)

    def value(self, depth=0):
        if depth > 2 or self.random.random() < 0.4:
            return self.pick("a", "b", "c", str(self.random.randint(0, 5)))
        left, right = self.value(depth + 1), self.value(depth + 1)
        return self.pick(
            f"({left} + {right})", f"({left} - {right})", f"({left} * {right} % 97)",
            f"({left} if {self.condition(depth + 1)} else {right})",
        )  # fmt: skip

    def condition(self, depth=0):
        if depth < 2 and self.random.random() < 0.3:
            one, other = self.condition(depth + 1), self.condition(depth + 1)
            return self.pick(f"({one} and {other})", f"({one} or {other})", f"(not {one})")
        compare = self.pick("<", ">", "==", "!=", "<=", ">=")
        return f"({self.value(depth + 1)} % 5 {compare} {self.value(depth + 1)} % 5)"

    def block(self, indent, depth, loop):
        count = self.random.randint(1, 3)
        return "".join(self.statement(" " * indent, depth, loop) for _ in range(count))

    def statement(self, margin, depth, loop):
        inner, deeper = len(margin) + 4, depth + 1
        assign = f"{margin}{self.pick('a', 'b', 'c')} = {self.value()} % 1000\n"
        leave = self.pick(
            *(["break", "continue"] if loop else []), f"return {self.value()}",
            "raise RuntimeError('raised')",
        )  # fmt: skip
        kind = self.random.random()
        if kind < 0.35 or depth > 3:
            return self.pick(assign, assign, f"{margin}log({self.value()})\n")
        if kind < 0.6:
            then = f"{margin}if {self.condition()}:\n{self.block(inner, deeper, loop)}"
            otherwise = f"{margin}else:\n{self.block(inner, deeper, loop)}"
            return self.pick(then, then + otherwise)
        if kind < 0.7:
            head = f"{margin}for i{depth} in range({self.pick('0', '1', '3', 'a % 4')}):\n"
            return head + self.block(inner, deeper, True)
        if kind < 0.8:
            test = f"w{depth} < {self.random.randint(0, 5)} and {self.condition()}"
            step = f"{margin}    w{depth} = w{depth} + 1\n"
            body = self.block(inner, deeper, True)
            return f"{margin}w{depth} = 0\n{margin}while {test}:\n{step}{body}"
        if kind < 0.87:
            contexts = self.pick("enter(a)", "enter(a), enter(b)")
            return f"{margin}with {contexts}:\n{self.block(inner, deeper, loop)}"
        if kind < 0.97:
            return f"{margin}if {self.condition()}:\n{margin}    {leave}\n"
        return f"{margin}{leave}\n"


@pytest.mark.parametrize("block", range(4))
def test_random_functions_do_what_python_does(block):
    for seed in range(40 * block, 40 * (block + 1)):
        writer = Writer(seed)
        calls = [[writer.random.randint(-5, 9) for _ in range(3)] for _ in range(4)]
        assert_as_python(writer.function(), calls)
