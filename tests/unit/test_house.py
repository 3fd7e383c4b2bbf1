"""Rules of the house that no linter states: imports, docstrings, packaging, import time."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, version
from pathlib import Path

import networkx
import pytest

import minitorch2
from lint import budget
from minitorch2.native.table import TABLE, VERSIONS_SEEN

SOURCE = Path(minitorch2.__file__).parent
ROOT = Path(__file__).parents[2]
FILES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
FLOORS = [path for path in PACKAGES if path.parent == SOURCE]

# What this project reimplements. They are peers: tests and benchmarks may import them.
FORBIDDEN = (
    "torch._dynamo", "torch._inductor", "torch._functorch", "torch.jit", "torch.export",
    "torch.fx", "functorch",
)  # fmt: skip
EXEMPT = {"torch.fx": "backends", "torch.export": "backends"}  # bridges to PyTorch's own graphs


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def imported_modules(tree: ast.AST) -> set[str]:
    """Every dotted name that an import statement of the file mentions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def attribute_paths(tree: ast.AST) -> set[str]:
    """Dotted names that are read as attributes of `torch`: `torch.fx.Graph` and the like."""
    paths = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {path for path in paths if path.startswith("torch.")}


def is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


VAGUE = re.compile(r"\b(utils?|helpers?|misc)\b")
TREES = {path: ast.parse(path.read_text()) for path in FILES}


def floor_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def test_nothing_reimplemented_is_imported():
    assert not [
        f"{name(path)}: {module}"
        for path, tree in TREES.items()
        for module in imported_modules(tree) | attribute_paths(tree)
        for package in FORBIDDEN
        if is_below(module, package) and EXEMPT.get(package) != floor_of(path)
    ]


def test_only_the_demo_calls_the_peer():
    callers = [path for path, tree in TREES.items() if "torch.compile" in attribute_paths(tree)]
    assert {floor_of(path) for path in callers} <= {"demo"}


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
REASON = re.compile(r"#(?! noqa: \w+$).*\w")


def imports_inside_functions(tree: ast.AST) -> set[int]:
    """The lines of a file's imports that are not at the top."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    inside = [node for function in functions for node in ast.walk(function)]
    return {node.lineno for node in inside if isinstance(node, ast.Import | ast.ImportFrom)}


def test_imports_inside_functions_have_a_written_reason():
    without = []
    for path, tree in TREES.items():
        lines = path.read_text().splitlines()
        for number in imports_inside_functions(tree):
            above, line = lines[number - 2].strip(), lines[number - 1]
            if not above.startswith("#") and not REASON.search(line):
                without.append(f"{name(path)}:{number}: {line.strip()}")
    assert not without


def import_circles() -> list[set[str]]:
    """Modules that import each other, directly or not; imports for types only count as others."""
    modules = {
        ".".join(["minitorch2", *path.relative_to(SOURCE).with_suffix("").parts]): path
        for path in FILES
    }
    modules = {module.removesuffix(".__init__"): path for module, path in modules.items()}
    graph = networkx.DiGraph()
    for module, path in modules.items():
        imported = imported_modules(TREES[path]) & set(modules)
        packages = {name.rpartition(".")[0] for name in imported}  # `from package import module`
        graph.add_edges_from((module, name) for name in imported - packages)
    circles = networkx.strongly_connected_components(graph)
    return sorted((circle for circle in circles if len(circle) > 1), key=len, reverse=True)


def test_no_circle_of_imports_has_more_than_three_modules():
    assert max(map(len, import_circles())) <= 3


def test_no_modules_of_script_import_each_other():
    assert not [c for c in import_circles() if any("minitorch2.script" in name for name in c)]


def test_no_vague_names():
    assert not [name(path) for path in FILES if VAGUE.search(path.stem)]


def test_files_stay_short():
    assert not [name(path) for path in FILES if len(path.read_text().splitlines()) > 600]


def test_the_lines_of_all_floors_stay_within_the_budget():
    assert budget.main() == 0


def test_only_programs_print():
    printing = []
    for path, tree in TREES.items():
        calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if "print" in calls and path.name != "__main__.py" and floor_of(path) != "demo":
            printing.append(name(path))
    assert not printing


@pytest.mark.parametrize("floor", FLOORS, ids=name)
def test_each_floor_says_what_it_takes_gives_and_how_to_read_it(floor):
    docstring = ast.get_docstring(ast.parse((floor / "__init__.py").read_text())) or ""
    for word in ("takes", "gives", "read(ing)?"):
        assert re.search(rf"\b{word}\b", docstring, re.IGNORECASE), f"{floor.name}: no {word!r}"


def test_version_comes_from_one_place():
    assert version("minitorch2") == minitorch2.__version__


def test_the_description_of_the_package_has_no_link_that_leads_nowhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / hook["fragments"][0]["path"]).read_text()
    relative = re.compile(r"\]\((?!https?:)")
    assert relative.search(text)
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    assert not relative.search(text) and "One function, all the way down" in text
    assert "urls" not in project["project"]  # none is known: see docs/decisions.md


def test_torch_finds_the_backend_by_its_entry_point():
    entry = [e for e in entry_points(group="torch_dynamo_backends") if e.name == "minitorch2"]
    assert [e.value for e in entry] == ["minitorch2.backends.torch_entry:minitorch2_backend"]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HEAVY = ("torch", "sympy", "numba", "triton", "numpy", "networkx")


@pytest.mark.parametrize("module", ["minitorch2", "minitorch2.config", "minitorch2.stages"])
def test_the_basement_imports_nothing_heavy(module):
    assert run(f"import sys, {module}; print(set({HEAVY}) & set(sys.modules))") == "set()"


LATE = (
    "numba", "triton", "networkx", "jinja2", "rich", "hypothesis", "transformers", "matplotlib",
    "torch._dynamo", "torch._inductor", "minitorch2.loopir", "minitorch2.autograd",
    "minitorch2.codegen.numba", "minitorch2.codegen.triton", "minitorch2.native.kernels",
    "minitorch2.native.kernel_library", "minitorch2.native.triton_internals", "minitorch2.testing",
)  # fmt: skip


def test_the_first_names_import_nothing_that_only_compiling_needs():
    code = "import sys, minitorch2\nminitorch2.compile, minitorch2.explain, minitorch2.Dim\n"
    assert run(f"{code}print(set({LATE}) & set(sys.modules))") == "set()"


def test_imports_of_the_first_names_collect_no_garbage_and_trace_no_rule():
    code = """
import gc, torch, minitorch2
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
minitorch2.compile
from minitorch2.graph.patterns import FAMILIES
print(2 in seen, gc.isenabled(), any("graph" in vars(r) for f in FAMILIES.values() for r in f))
"""
    assert run(code) == "False True False"


@pytest.mark.parametrize("name", ["is_compiling", "graph_break", "config", "stages", "__version__"])
def test_what_a_program_asks_for_in_eager_code_does_without_torch(name):
    code = f"import sys, minitorch2\nminitorch2.{name}\nprint(set({HEAVY}) & set(sys.modules))"
    assert run(code) == "set()"


def test_every_public_name_is_found_on_first_use():
    code = "import minitorch2; print(*(n for n in minitorch2.__all__ if getattr(minitorch2, n)))"
    assert run(code).split() == minitorch2.__all__
    assert set(minitorch2._PLACES) <= set(minitorch2.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="compyle"):
        _ = minitorch2.compyle


def test_the_bytecode_machine_needs_no_torch():
    pytest.importorskip("minitorch2.bytecode.machine")
    assert run("import sys, minitorch2.bytecode.machine; print('torch' in sys.modules)") == "False"


# What only the native floor may name: its table says who needs each, and what happens without it.
INSIDES = (
    "ctypes", "llvmlite", "numba.core", "numba.extending", "torch._C",
    "torch._ops", "triton.backends", "triton.compiler", "triton.runtime",
)  # fmt: skip
# Names with an underscore that are public: documented, or operators that programs call.
PUBLIC = re.compile(
    r"sys\._getframe|torch\._(check|assert|constrain|foreach|fused|neg)_?\w*|torch\.ops\..*"
    r"|numba\.core(\.errors(\.NumbaError)?)?"  # Numba has no other place for its errors
    r"|warnings\._\w+"  # the filters that polyfills read and write, as `warnings` itself does
)


def inside_names(tree: ast.AST) -> set[str]:
    """The names of other projects' insides that a file imports or reads as attributes."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.partition(".")[0]
                imported[each.asname or first] = each.name if each.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {e.asname or e.name: f"{node.module}.{e.name}" for e in node.names}
    paths = {path for path in imported.values() if path.partition(".")[0] != "__future__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if first in imported and re.fullmatch(r"[\w.]+", rest):
                paths.add(f"{imported[first]}.{rest}")
    others = {path for path in paths if not is_below(path, "minitorch2")}
    private = {path for path in others if re.search(r"(^|\.)_(?!_)", path)}
    inside = {path for path in others if any(is_below(path, each) for each in INSIDES)}
    return {path for path in private | inside if not PUBLIC.fullmatch(path)}


def test_only_the_native_floor_names_the_insides_of_others():
    broken = {
        f"{name(path)}: {each}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] != "native"
        for each in inside_names(ast.parse(path.read_text()))
    }
    assert not broken


def test_the_insides_of_others_are_found_however_they_are_named():
    text = "import torch as t, ctypes as c\nfrom torch._C import x\nt._C.y\nt._check(t.ops.aten._z)"
    assert inside_names(ast.parse(text)) == {"ctypes", "torch._C.x", "torch._C", "torch._C.y"}


def test_versions_of_other_projects_are_bounded_by_those_seen():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = [*project["dependencies"], *project["optional-dependencies"]["triton"]]
    for package, seen in VERSIONS_SEEN.items():
        major, minor = map(int, seen[-1].split("."))
        bounds = [
            each
            for each in known
            if re.match(rf"{package}>=[\d.]+,<{major}.{minor + 1}(;|$)", each)
        ]
        assert bounds or package == "python", package
    pythons = re.findall(r":: (3\.\d+)", " ".join(project["classifiers"]))
    assert VERSIONS_SEEN["python"] == pythons


def test_each_module_of_private_names_has_a_row_in_the_table():
    rooms = ("torch_internals", "triton_internals", "cpython/library.py", "numpy_internals.py")
    probed = {row.probe.partition(":")[0] for row in TABLE}
    native = SOURCE / "native"
    files = [
        file
        for room in rooms
        for file in ([native / room] if room.endswith("py") else (native / room).glob("[a-z]*.py"))
    ]
    missing = {
        module
        for module in (".".join(file.relative_to(native).with_suffix("").parts) for file in files)
        if module not in probed | {"torch_internals.tensor_metadata"}  # it uses `dispatch`
    }
    assert not missing


def test_what_is_needed_of_other_projects_is_there():
    assert {row.thing: row.missing() for row in TABLE if row.needed and row.missing()} == {}


TARGETS = ("numba", "triton")
"""The folders of `codegen` whose names no other code compares: a target has methods for that."""


def is_of_a_target(path: Path) -> bool:
    return path.relative_to(SOURCE).parts[:2] in [("codegen", target) for target in TARGETS]


def compared_constants(tree: ast.AST) -> set[object]:
    """The constants that comparisons and `match` statements of a file name, alone or in a tuple."""
    tests = [n for n in ast.walk(tree) if isinstance(n, ast.Compare | ast.MatchValue)]
    inside = (each for test in tests for each in ast.walk(test))
    return {each.value for each in inside if isinstance(each, ast.Constant)}


def test_nothing_outside_of_a_target_compares_its_name():
    outside = {path: tree for path, tree in TREES.items() if not is_of_a_target(path)}
    named = {name(path): compared_constants(tree) & {*TARGETS} for path, tree in outside.items()}
    assert not {file: found for file, found in named.items() if found}


def test_comparisons_of_a_targets_name_are_found_however_they_are_written():
    for text in (
        'a == "numba"', 'x.target in ("triton",)', 'match a:\n case "numba": pass',
        'b if "triton" != a else c',
    ):  # fmt: skip
        assert compared_constants(ast.parse(text)) & {*TARGETS}, text
    assert not compared_constants(ast.parse('table["numba"], f("triton")'))


TEXTS = ("text", "lines", "code", "definition", "definitions")
READERS = ("startswith", "endswith", "find", "count", "index", "match", "search", "findall")


def is_text(node: ast.expr) -> bool:
    """Whether an expression is the text of a kernel or a wrapper, by the name of its attribute."""
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


def readings(tree: ast.AST) -> list[str]:
    """Where a file asks a generated text: `x.text.startswith(y)`, `y in x.text`, `re.search`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            operands = [node.func.value, *node.args]
            is_asked = node.func.attr in READERS and any(map(is_text, operands))
        else:
            pairs = [*zip(node.ops, node.comparators)] if isinstance(node, ast.Compare) else []
            is_asked = any(isinstance(o, ast.In | ast.NotIn) and is_text(c) for o, c in pairs)
        if is_asked:
            found.append(ast.unparse(node))
    return found


def test_no_analysis_reads_a_generated_text():
    """But one: of a kernel from the cache there is its text alone, whose comments errors repeat."""
    rooms = [path for path in FILES if floor_of(path) in ("backends", "codegen", "native")]
    found = {name(path): readings(TREES[path]) for path in rooms if readings(TREES[path])}
    assert [*found] == ["native/kernels/runtime.py"]
    assert [each.partition(",")[0] for each in found.popitem()[1]] == ["re.findall('^ *# (.*)$'"]


def test_readings_of_a_text_are_found():
    for text in (
        "x.text.startswith('a')",
        "'a' in kernel.text",
        "re.search('a', self.source.text)",
    ):
        assert readings(ast.parse(text)), text
    assert not readings(ast.parse("x.text.strip(); 'a' in names; name.startswith('a')"))
