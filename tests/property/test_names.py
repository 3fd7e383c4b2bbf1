"""Whatever a program's author calls things: the results, the graphs and the programs are the same.

Each identifier of a program is drawn from the names that generated code uses itself, found by
reading what the generators print, and from what Python calls its own.
"""

import builtins
import functools
import keyword
import linecache
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from string import Template
from typing import Any
from unittest import mock

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import minitorch2
from minitorch2 import config, stages
from minitorch2.backends.graph_cache import bypass, lookup
from minitorch2.backends.graph_cache.key import key_of_graph
from minitorch2.bytecode.dispatch import dispatcher, suspended
from minitorch2.bytecode.frames import signature
from minitorch2.bytecode.machine.liveness import READS_FRAME
from minitorch2.codegen import wrapper
from minitorch2.codegen.compile_graph import compile_graph
from minitorch2.codegen.numba.target import NUMBA
from minitorch2.graph import Graph, GraphModule, graph_hash, map_nodes
from minitorch2.graph.node import Node
from minitorch2.graph.symbols.expression import SYMBOL_NAME
from tests.property.random_programs import VALUES, RandomProgram, programs
from tests.property.test_joint_graphs import differentiable, leaves
from tests.unit.codegen.aten_graph import call_inputs, record

PATIENT = settings(  # an example compiles whole programs: to make it smaller would take minutes
    max_examples=5,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
BACKENDS = st.sampled_from(("numba", "numba", "aot_eager", "eager", "aot_numpy", "triton"))
STAGES = (
    "captured_graph.py", "joint graph.py", "forward graph.py", "backward graph.py", "loopir.py",
    "kernel.py", "wrapper.py", "guards.py", "residual.py",
)  # fmt: skip
OTHERS = (
    "torch", "sympy", "math", "operator", "minitorch2", "None_", "self", "cls", "__class__", "_",
    "builtins", "numpy", "forward", "lookup", "attributes", "recompile", "implicit_0", "_at",
    "größe", "Δ", "名", "n" * 300,
)  # fmt: skip

TAKEN = frozenset(dir(torch.nn.Module())) | {"__class__", "__dict__"}
"""The attributes that a module, or an instance of a class, has already."""


def texts_of_generators() -> Iterator[str]:
    """Texts of all kinds that are printed, and templates of those that are not shown."""

    def program(x: Any, w: Any, *, scale: float = 2.0) -> Any:
        y = torch.softmax(x @ w, -1).cumsum(0).flip(0) * scale
        minitorch2.graph_break()
        return torch.sort(y.sum(0))[0], y.argmax(-1) + x.shape[0], torch.nn.functional.dropout(y)

    with stages.collect() as log, config.patch(assert_layouts=True, assert_no_nan=True):
        for dynamic in (False, True):
            x = torch.randn(6, 6, requires_grad=True)
            values = minitorch2.compile(program, dynamic=dynamic)(x, torch.randn(6, 6))
            values[0].sum().backward()
    yield from (stage.text for stage in log.stages if stage.name in STAGES)
    for module in (dispatcher, suspended):
        yield from (text for text in vars(module).values() if isinstance(text, str))
    yield " ".join((*wrapper.WORDS, *signature._BUILTINS, signature.PRIVATE))


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """The names that generated code uses, as a program may use them too."""
    text = "\n".join(texts_of_generators())
    found = {*re.findall(r"[^\W\d]\w*", text), *OTHERS, *dir(builtins)}
    found |= {f"_minitorch2_{name}" for name in ("entries", "function", "resolve", "code")}
    return tuple(sorted(n for n in found - {"__debug__"} if not keyword.iskeyword(n)))


def test_the_vocabulary_is_what_generators_print() -> None:
    known = {*vocabulary()}
    assert {"buf0", "arg0", "args", "torch_mm", "empty_cpu", "base", "arena", "s0", "tmp0"} <= known
    assert {"in_ptr0", "__compiled_fn_0", "__t0", "_at", "_error", "tangent_0", "call"} <= known


@dataclass(frozen=True)
class Named:
    """A program with a ``$role`` for each identifier; `$main` is its function."""

    text: str

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles."""
        return tuple(sorted({*re.findall(r"\$(\w+)", self.text)}))

    def written(self, chosen: dict[str, str]) -> Callable[..., Any]:
        """The function, with these names."""
        text = Template(self.text).substitute(chosen)
        file = f"<program {hash(text)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        scope: dict[str, Any] = {"__name__": "named_program"}
        torch.manual_seed(0)
        exec(compile(text, file, "exec"), scope)
        function: Callable[..., Any] = scope[chosen["main"]]
        return function

    @functools.cached_property
    def plain(self) -> Callable[..., Any]:
        """The function with names that nothing else has."""
        return self.written({role: f"plain_{role}_" for role in self.roles})


@st.composite
def names(draw: st.DrawFn, program: Named) -> dict[str, str]:
    """A name for each role, all different, and none that the program uses already; a program with
    classes has none that they mangle. Functions that mention a reader of frames keep more alive.
    """
    is_mangled = re.compile("__.*(?<!__)" if "class " in program.text else r"(?!)")
    used = {*re.findall(r"(?<![$\w])\w+", program.text), *READS_FRAME}
    usable = [n for n in vocabulary() if n not in used and not is_mangled.fullmatch(n)]
    free = [name for name in usable if name not in TAKEN]
    chosen: dict[str, str] = {}
    for role in program.roles:
        name = draw(st.sampled_from(free if role.startswith("member") else usable))
        chosen[role] = name if name not in chosen.values() else f"{name}_{len(chosen)}"
    return chosen


FUNCTIONS = Named("""\
import torch as $torch
from minitorch2 import graph_break as $stop
$shared = $torch.tensor([1.5, -2.0, 0.5])
def $helper($first, *$rest, $key=1.0, **$more):
    return ($first * $shared + $rest[0].sum(0)) * $key + $more["$word"]
def $outer($free):
    def $main($a, $b, $unused=None, *, $option=2.0):
        $local = $torch.mm($a, $b).relu() + $shared
        $table = {"$word": $local, "$key": $a}
        $stop()
        $inner = lambda $p, $q=$option: $p * $q + $free
        $result = $helper($inner($table["$word"]), $b, $key=$option, $word=$local)
        $items = [$item + $q2 for $item in ($result, $local) for $q2 in (1, $a)]
        return $items, $table, $torch.nn.functional.linear($a, weight=$b)
    return $main
$main = $outer($shared * 2)
""")
MODULES = Named(
    """\
import torch as $torch
class $Block($torch.nn.Module):
    def __init__($this, $size):
        super().__init__()
        $this.member_$inner = $torch.nn.Linear($size, $size)
        $this.$member_weight = $torch.nn.Parameter($torch.ones($size))
        $this.register_buffer("$member_buffer", $torch.full(($size,), 0.5))
    def forward($this, $x):
        $y = $torch.tanh($this.member_$inner($x)) * $this.$member_weight
        return $y.softmax(-1) + $this.$member_buffer
class $Model($torch.nn.Module):
    def __init__($this):
        super().__init__()
        $this.$member_a = $Block(3)
        $this.$member_b = $torch.nn.Sequential($Block(3), $torch.nn.ReLU())
    def forward($this, $x, $other):
        return $this.$member_b($this.$member_a($x) @ $other).cumsum(0)
$model = $Model()
def $main($x, $other):
    return $model($x, $other)
""".replace("member_$inner", "$member_inner")
)
OBJECTS = Named("""\
import torch as $torch
from minitorch2 import graph_break as $stop
class $Pair:
    def __init__($this, $one, *, $two):
        $this.$member_one, $this.$member_two = $one, $two
    def $member_run($this, *, $two=1):
        $this.$member_one = $this.$member_one * $two
        return $this.$member_one + $this.$member_two
def $steps($x, $count):
    for $i in range($count):
        $x = $torch.sin($x) + $i
        yield $x
def $main($x, $y):
    $pair = $Pair($x @ $y, $two=$y.sum(0))
    setattr($pair, "not a name", $x)
    setattr($pair, "lambda", $y.sum(0))
    $stop()
    $found = $pair.$member_run($two=2) + getattr($pair, "lambda")
    *$several, $last = $steps($found, 3)
    try:
        $key = {"{$last}": 1}["$x"]
    except KeyError as $error:
        $stop()
        $last = $last * len($error.args)
    return $several, $last.amax(-1), $pair.$member_one, getattr($pair, "not a name") * 2
""")
SUSPENSIONS = Named("""\
import torch as $torch
from minitorch2 import graph_break as $stop
def $stepper($first, *$rest, $scale=2.0):
    $total = $first * $scale
    for $index, $part in enumerate($rest):
        $stop()
        $total = $total + $part * $index
    return $total
def $numbers($start, $count):
    for $place in range($count):
        $received = yield $start + $place
        if $received is not None:
            $stop()
            $start = $start * $received
def $main($x, $other):
    $source = $numbers($x, 3)
    $one = next($source)
    $two = $source.send($other.sum(0))
    with $torch.no_grad():
        $stop()
        $kept = $other.sin()
    def $inner($y):
        nonlocal $one
        $stop()
        $one = $one + $y
        return $stepper($y, $one, $two, $scale=3.0)
    $values = [$inner($item) for $item in ($one, $two)]
    return $values, $one, $kept
""")
CACHED = Named("""\
def $main($x, $other):
    return ($x @ $other).tanh() + $x
""")


def results(function: Callable[..., Any], rows: int) -> list[Any]:
    """Values and gradients."""
    torch.manual_seed(1)
    x = torch.randn(rows, 3, requires_grad=True)
    values = function(x, torch.randn(3, 3))
    found = [v for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]
    wanted = [value for value in found if value.requires_grad and value is not x]
    torch.autograd.backward(wanted, [torch.ones_like(value) for value in wanted])
    return [value.detach() for value in found] + [x.grad]


def compiled(
    function: Callable[..., Any], dynamic: bool, backend: str
) -> tuple[list[Any], stages.StageLog]:
    """The results for two sizes, and what was compiled."""
    with stages.collect() as log, config.patch(suppress_errors=False):
        fast = minitorch2.compile(function, dynamic=dynamic, backend=backend)
        found = [each for rows in (3, 4) for each in results(fast, rows)]
    return found, log


def programs_in(log: stages.StageLog) -> list[str]:
    """The wrappers without comments, which quote the program."""
    lines = (text.splitlines() for text in log.texts("wrapper.py"))
    return ["\n".join(x for x in each if not x.lstrip().startswith("#")) for each in lines]


@functools.cache
def plain_log(program: Named, dynamic: bool, backend: str) -> stages.StageLog:
    """What the program with innocent names gives."""
    return compiled(program.plain, dynamic, backend)[1]


def check(program: Named, chosen: dict[str, str], dynamic: bool, backend: str) -> None:
    function = program.written(chosen)
    wanted = [each for rows in (3, 4) for each in results(function, rows)]
    minitorch2.reset()
    found, log = compiled(function, dynamic, backend)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)
    plain = plain_log(program, dynamic, backend)
    for count in ("graphs", "graph_breaks", "frames_as_is", "kernels"):
        assert log.counts[count] == plain.counts[count], count
    assert programs_in(log) == programs_in(plain)


@PATIENT
@given(names(FUNCTIONS), st.booleans(), BACKENDS)
def test_functions(chosen: dict[str, str], dynamic: bool, backend: str) -> None:
    check(FUNCTIONS, chosen, dynamic, backend)


@PATIENT
@given(names(MODULES), st.booleans(), BACKENDS)
def test_modules(chosen: dict[str, str], dynamic: bool, backend: str) -> None:
    check(MODULES, chosen, dynamic, backend)


@PATIENT
@given(names(OBJECTS), st.booleans(), BACKENDS)
def test_objects(chosen: dict[str, str], dynamic: bool, backend: str) -> None:
    check(OBJECTS, chosen, dynamic, backend)


@PATIENT
@given(names(SUSPENSIONS), st.booleans(), BACKENDS)
def test_suspensions(chosen: dict[str, str], dynamic: bool, backend: str) -> None:
    check(SUSPENSIONS, chosen, dynamic, backend)


def renamed(graph: Graph, chosen: list[str]) -> Graph:
    """The same graph under other names; a node that is no symbol has no symbol's name."""
    result, copies = Graph(), dict[Node, Node]()
    for node, name in zip(graph.nodes, chosen, strict=False):
        is_symbol = SYMBOL_NAME.fullmatch(name) and node.op != "placeholder"
        args, kwargs = map_nodes((node.args, dict(node.kwargs)), copies.__getitem__)
        made = result.create_node(
            node.op, node.target, args, kwargs, f"{name}_" if is_symbol else name
        )
        made.meta = dict(node.meta)
        copies[node] = made
    return result


@PATIENT
@given(programs({name: step for name, step in VALUES.items() if name != "dropout"}), st.data())
def test_graphs(program: RandomProgram, data: st.DataObject) -> None:
    """A graph under other names has the same hash, place in the cache, wrapper and results."""
    inputs = [x.detach().clone() for x in leaves()]
    valid = differentiable(program)
    module = record(lambda *xs: (*valid(*xs), torch.sin(xs[0])), *inputs)
    count = len(module.graph)
    chosen = data.draw(st.lists(st.sampled_from(vocabulary()), min_size=count, max_size=count))
    other = GraphModule(renamed(module.graph, chosen), module.attributes)
    assert graph_hash(module) == graph_hash(other)
    keys = [key_of_graph(each, call_inputs(each, *inputs), NUMBA) for each in (module, other)]
    assert keys[0].digest == keys[1].digest
    wanted, texts = [], []
    for each in (module, other):
        with stages.collect() as log:
            wanted.append((each(*inputs), compile_graph(each)(call_inputs(each, *inputs))))
        texts += programs_in(log)
    assert texts[0] == texts[1]
    for plain, found in wanted:
        for a, b, c in zip(plain, found, wanted[0][0], strict=True):
            torch.testing.assert_close(a, c, rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(b, c, equal_nan=True)


@PATIENT
@given(names(CACHED))
def test_the_cache_serves_all_names(chosen: dict[str, str]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        config.patch(cache_dir=folder, verify=False),
        mock.patch.object(bypass, "EXTENSIONS", list[str]()),  # other tests add lowerings
    ):
        for number, each in enumerate(({"x": "x", "other": "y", "main": "f"}, chosen)):
            function = CACHED.written(each)
            minitorch2.reset()
            lookup._PROGRAMS.clear()
            x, y = torch.randn(3, 3), torch.randn(3, 3)
            with stages.collect(texts=False) as log:
                torch.testing.assert_close(minitorch2.compile(function)(x, y), function(x, y))
            assert log.counts["graphs_loaded" if number else "graphs_compiled"] == 1
