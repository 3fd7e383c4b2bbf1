"""The alias analysis: what may be the same memory, and which moves it allows."""

import random

import torch

from minitorch2.script.analysis import alias_tracker
from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.ir.graph import Graph
from minitorch2.script.ir.parse_ir import parse_graph
from minitorch2.script.ir.verify import verify
from minitorch2.script.operators.registry import operator_of

FOO = """graph(%a : Tensor, %b : Tensor):
  %two : int = prim::Constant[value=2]()
  %zero : int = prim::Constant[value=0]()
  %c : Tensor = aten::mul(%b, %two)
  %d : Tensor = aten::add_(%a, %two, %two)
  %s : Tensor = aten::sum(%c, %e)
  %t : bool = aten::Bool(%s)
  %r : Tensor = prim::If(%t)
    block0():
      %ra : Tensor = aten::select(%a, %zero, %zero)
      -> (%ra)
    block1():
      %rb : Tensor = aten::select(%b, %zero, %zero)
      -> (%rb)
  return (%c, %r)
""".replace("  %c : T", "  %e : NoneType = prim::Constant[value=None]()\n  %c : T")


def named(graph):
    values = {v.name: v for node in graph.nodes() for v in node.outputs}
    return values | {v.name: v for v in graph.inputs}


def test_the_example_of_the_overview():
    graph = parse_graph(FOO)
    v, db = named(graph), AliasDb(graph)
    assert db.may_alias(v["a"], v["b"]) and db.may_alias(v["r"], v["a"])
    assert not db.may_alias(v["c"], v["a"]) and not db.may_alias(v["c"], v["r"])
    assert db.has_writers(v["b"]) and not db.has_writers(v["c"])
    assert not db.move_after_topologically_valid(v["c"].node, v["d"].node)
    assert db.move_before_topologically_valid(v["s"].node, v["d"].node)
    verify(graph)


def test_what_is_appended_to_a_list_can_be_written_through_it():
    graph = parse_graph("""graph(%n : int, %x : Tensor):
  %y : Tensor = aten::relu(%x)
  %v : Tensor = aten::t(%y)
  %l : Tensor[] = prim::ListConstruct()
  %m : Tensor[] = aten::append(%l, %v)
  %g : Tensor = aten::__getitem__(%l, %n)
  %w : Tensor = aten::relu_(%g)
  %z : Tensor = aten::neg(%y)
  return (%z)""")
    v, db = named(graph), AliasDb(graph)
    assert db.has_writers(v["y"])
    assert not db.move_after_topologically_valid(v["w"].node, v["z"].node)


def test_an_element_of_a_list_literal_can_be_written_through_the_list():
    graph = parse_graph("""graph(%n : int, %x : Tensor):
  %y : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%y)
  %k : Tensor[] = aten::slice(%l, %n, %n, %n)
  %g : Tensor = aten::__getitem__(%k, %n)
  %w : Tensor = aten::relu_(%g)
  %z : Tensor = aten::neg(%y)
  return (%z)""")
    v, db = named(graph), AliasDb(graph)
    assert db.may_alias(v["g"], v["y"])
    assert not db.move_after_topologically_valid(v["w"].node, v["z"].node)


def test_lists_that_are_read_hold_their_elements():
    graph = parse_graph("""graph(%n : int, %x : Tensor):
  %y : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%y)
  %c : Tensor = aten::cat(%l, %n)
  %w : Tensor = aten::relu_(%y)
  return (%c)""")
    v, db = named(graph), AliasDb(graph)
    assert not db.move_after_topologically_valid(v["c"].node, v["w"].node)
    assert not db.may_alias(v["c"], v["y"]) and db.may_contain_alias(v["l"], v["y"])


def test_attributes_of_a_module_may_be_its_inputs_memory():
    graph = parse_graph("""graph(%self : __torch__.M, %x : Tensor):
  %w : Tensor = prim::GetAttr[name="weight"](%self)
  %y : Tensor = aten::relu(%x)
  %z : Tensor = aten::neg(%y)
  %u : Tensor = aten::relu_(%w)
  return (%z)""")
    v, db = named(graph), AliasDb(graph)
    assert db.may_alias(v["w"], v["x"]) and not db.may_alias(v["w"], v["y"])
    assert not db.move_after_topologically_valid(v["y"].node, v["u"].node)
    assert db.move_after_topologically_valid(v["z"].node, v["u"].node)


def test_the_sum_that_is_assigned_to_a_list_is_the_list():
    graph = parse_graph("""graph(%n : int):
  %l : int[] = prim::ListConstruct(%n)
  %m : int[] = aten::add_(%l, %l)
  %k : int[] = aten::append(%m, %n)
  %c : int = aten::len(%l)
  return (%c)""")
    v, db = named(graph), AliasDb(graph)
    assert db.may_alias(v["l"], v["m"])
    assert not db.move_after_topologically_valid(v["k"].node, v["c"].node)


def test_a_constant_tensor_is_memory_of_the_caller():
    graph = parse_graph("""graph(%x : Tensor):
  %c : Tensor = prim::Constant[value=tensor([1.0], torch.float32)]()
  %w : Tensor = aten::relu_(%c)
  %y : Tensor = aten::neg(%x)
  return (%y)""")
    v, db = named(graph), AliasDb(graph)
    assert db.escapes(v["c"]) and db.has_writers(v["x"])
    assert not db.move_after_topologically_valid(v["w"].node, v["y"].node)


def test_what_may_raise_stays_before_what_prints():
    graph = parse_graph("""graph(%n : int, %x : Tensor):
  %q : int = aten::floordiv(%n, %n)
  %y : Tensor = aten::neg(%x)
  prim::Print(%n)
  return (%q, %y)""")
    v, db = named(graph), AliasDb(graph)
    (printed,) = [node for node in graph.nodes() if node.kind == "prim::Print"]
    assert not db.move_after_topologically_valid(v["q"].node, printed)
    assert db.move_after_topologically_valid(v["y"].node, printed)


def random_graph(rng):
    """Return a line of operators, views and writes on two inputs."""
    lines, names = [], ["x", "y"]
    for k in range(8):
        kind = rng.choice(["relu", "neg", "t", "relu_", "neg_", "detach", "abs_"])
        lines.append(f"  %v{k} : Tensor = aten::{kind}(%{rng.choice(names)})")
        names.append(f"v{k}")
    text = "\n".join(lines)
    uses = ", ".join(f"%{name}" for name in names)
    return parse_graph(f"graph(%x : Tensor, %y : Tensor):\n{text}\n  return ({uses})")


def evaluate(graph, *inputs):
    values = dict(zip(graph.inputs, inputs))
    for node in graph.block.nodes:
        values[node.output] = operator_of(node)(*(values[v] for v in node.inputs))
    return [values[v].tolist() for v in graph.outputs]


def test_moves_that_are_allowed_change_no_result():
    moves = 0
    for seed in range(150):
        rng = random.Random(seed)
        graph = random_graph(rng)
        shared = torch.tensor([[1.0, -2.0], [-3.0, 4.0]])
        pairs = [(shared, shared + 1), (shared, shared)]
        before = [evaluate(graph, a.clone(), b.clone()) for a, b in pairs]
        same = shared.clone()
        before.append(evaluate(graph, same, same))
        db, nodes = AliasDb(graph), list(graph.block.nodes)
        first, last = sorted(rng.sample(range(len(nodes)), 2))
        moves += db.move_after_topologically_valid(nodes[first], nodes[last])
        verify(graph)
        after = [evaluate(graph, a.clone(), b.clone()) for a, b in pairs]
        same = shared.clone()
        assert before == [*after, evaluate(graph, same, same)], seed
    assert moves > 20


def test_questions_about_a_long_chain_of_views_follow_each_link_once(monkeypatch):
    """Regression: each question followed the whole chain, so 2,000 views took nine seconds."""
    graph = Graph()
    views = [graph.add_input("x")]
    for _ in range(300):
        views.append(graph.insert(graph.create("aten::t", (views[-1],), 1)).output)
    aliases, asked, reach = AliasDb(graph), [], alias_tracker._reach

    def counted(*arguments, **options):
        asked.append(len(found := reach(*arguments, **options)))
        return found

    monkeypatch.setattr(alias_tracker, "_reach", counted)
    assert all(aliases.may_alias(view, views[0]) for view in views)
    assert sum(asked) <= 2 * len(views)
