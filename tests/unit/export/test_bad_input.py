"""Bad input of export, of files and of packages: one clear error each."""

import copy
import hashlib
import json
import pickle
import zipfile
from collections import deque

import pytest
import torch

import minitorch2
from minitorch2 import Dim
from minitorch2.errors import ConfigError, DynamicSizeError, ExportError, GraphBreakError
from minitorch2.explorer.cached import __main__ as cache_command
from minitorch2.exporting import loaded_package, machines, packaging


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)


def program(**shapes):
    return minitorch2.export(linear(), (torch.ones(2, 4),), dynamic_shapes=shapes or None)


def refusal(call, *args, error=ExportError, **kwargs):
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# Programs -----------------------------------------------------------------------------------------


def test_a_break_names_the_line_and_the_remedy():
    def branches(x):
        return x + 1 if x.sum() > 0 else x

    text = refusal(minitorch2.export, branches, (torch.ones(3),), error=GraphBreakError)
    assert "return x + 1 if x.sum() > 0 else x" in text and "torch.where" in text


def test_a_change_of_a_python_object_is_refused():
    seen = []

    def appends(x):
        seen.append(1)
        return x

    text = refusal(minitorch2.export, appends, (torch.ones(3),), error=GraphBreakError)
    assert "seen" in text and "export-effect" in text


def test_a_change_of_an_attribute_is_refused_and_a_buffer_written_in_place_is_not():
    class Counts(torch.nn.Module):
        def __init__(self, in_place):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.in_place = in_place

        def forward(self, x):
            if self.in_place:
                self.count += 1
            else:
                self.count = self.count + 1
            return x * self.count

    text = refusal(minitorch2.export, Counts(False), (torch.ones(3),), error=GraphBreakError)
    assert "self.count.add_(1)" in text
    assert minitorch2.export(Counts(True), (torch.ones(3),)).signature.mutated == ["count"]


def test_exporting_changes_neither_buffers_nor_marks():
    model, x = torch.nn.BatchNorm1d(3), torch.randn(4, 3)
    before = model.running_mean.clone()
    minitorch2.export(model, (x,), dynamic_shapes=({0: Dim("batch")},))
    assert torch.equal(model.running_mean, before) and not vars(x)


def test_a_dimension_that_the_program_fixes_names_the_line_and_the_fix():
    def fixes(x):
        return x.view(3, 4).sum(0)

    shapes = {"x": {0: Dim("rows")}}
    text = refusal(
        minitorch2.export, fixes, (torch.ones(3, 4),), dynamic_shapes=shapes, error=DynamicSizeError
    )
    assert "return x.view(3, 4).sum(0)" in text and "declare the dimension static" in text


def test_a_narrower_range_names_the_dim_that_would_do():
    def at_least(x):
        return x[:5] if x.shape[0] >= 5 else x

    shapes = {"x": {0: Dim("rows")}}
    text = refusal(
        minitorch2.export, at_least, (torch.ones(8),), dynamic_shapes=shapes, error=DynamicSizeError
    )
    assert "Dim('rows', min=5)" in text


def test_a_relation_without_its_dimension_is_refused():
    shapes = ({0: 2 * Dim("half")},)
    text = refusal(minitorch2.export, torch.sin, (torch.ones(4),), dynamic_shapes=shapes)
    assert "Dim('half')" in text


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"y": {0: Dim("b")}}, "names 'y'"),
        ({"input": {0: 7}}, "says 7 of dimension 0"),
        ({"input": ["b"]}, "which has 2 dimensions"),
        (({0: Dim("b")}, None), "2 parts for 1 arguments"),
        ({"input": 3}, "says 3 of input"),
    ],
)
def test_shapes_that_do_not_fit_the_arguments(shapes, words):
    text = refusal(minitorch2.export, linear(), (torch.ones(2, 4),), dynamic_shapes=shapes)
    assert words in text and "Fix: give a dict" in text


def test_arguments_that_the_program_does_not_take():
    assert "it takes (input" in refusal(minitorch2.export, linear(), (torch.ones(2, 4), 1))
    assert "give a tuple" in refusal(minitorch2.export, linear(), torch.ones(2, 4))


def test_an_operator_that_takes_functions_is_refused():
    def chooses(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    assert "torch.where" in refusal(minitorch2.export, chooses, (torch.ones(3),))


def on_linear(*args, **kwargs):
    return lambda: minitorch2.export(linear(), *args, **kwargs)


def of_shapes(sizes):
    return on_linear((torch.ones(2, 4),), dynamic_shapes={"input": sizes})


NOT_EXPORTED = {
    "no program": (lambda: minitorch2.export(None), "the program is a NoneType", "a module"),
    "a number": (lambda: minitorch2.export(3), "the program is a int", "a module"),
    "a class": (lambda: minitorch2.export(torch.nn.Linear), "Linear is a class", "Linear(...)"),
    "no graph": (
        lambda: minitorch2.export(lambda a: 1, (object(),)),
        "no graph of it was captured",
        "compute on a tensor",
    ),
    "args is None": (on_linear(None), "args is a NoneType", "give a tuple"),
    "args is a text": (on_linear("abc"), "args is a str", "give a tuple"),
    "no arguments": (on_linear(), "missing a required argument", "it takes (input"),
    "kwargs is a list": (on_linear((torch.ones(2, 4),), [1]), "kwargs is a list", "give a dict"),
    "no such keyword": (on_linear((torch.ones(2, 4),), {"z": 1}), "argument 'z'", "it takes"),
    "shapes is a number": (on_linear((torch.ones(2, 4),), dynamic_shapes=3), "is a int", "a dict"),
    "no such dimension": (of_shapes({5: Dim("b")}), "names dimension 5 of input", "give a dict"),
    "a dimension's name": (of_shapes({"a": Dim("b")}), "names dimension 'a'", "give a dict"),
    "zero times": (of_shapes({0: 0 * Dim("b")}), "not 2 * Dim(...)", "give a dict"),
    "half of": (of_shapes({0: 0.5 * Dim("b")}), "not 2 * Dim(...)", "give a dict"),
    "a long tuple": (of_shapes({0: (1, 2, 3)}), "says (1, 2, 3) of dimension 0", "give a dict"),
    "outside the range": (of_shapes({0: Dim("b", min=5)}), "has size 2", "give other limits"),
    "a sparse example": (on_linear((torch.ones(2, 4).to_sparse(),)), "sparse_coo", "to_dense"),
}


@pytest.mark.parametrize(("call", "cause", "fix"), NOT_EXPORTED.values(), ids=NOT_EXPORTED)
def test_what_cannot_be_exported(call, cause, fix):
    text = refusal(call, error=(ExportError, ConfigError, GraphBreakError))
    assert cause in text.partition("Fix: ")[0] and fix in text.partition("Fix: ")[2]


@pytest.mark.parametrize(
    ("name", "limits"),
    [(3, {}), (None, {}), ("two words", {}), ("s0", {}), ("b", {"max": "x"}), ("b", {"min": -1})],
)
def test_a_dim_has_a_word_and_two_numbers(name, limits):
    text = refusal(Dim, name, **limits, error=ConfigError)
    assert repr((limits or {"": name}).popitem()[1]) in text


# Calls --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One program as it is made, as it is loaded, and as a package."""
    made, folder = program(input={0: Dim("batch", max=8)}), tmp_path_factory.mktemp("served")
    made.save(folder / "program.mt2")
    minitorch2.package(made, folder / "package.mt2")
    return made, *(minitorch2.load(folder / f"{name}.mt2") for name in ("program", "package"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((torch.ones(2, 4, dtype=torch.float64),), "has dtype torch.float64"),
        ((torch.ones(2, 4, device="meta"),), "is on meta"),
        ((torch.ones(8),), "has 1 dimensions"),
        ((torch.ones(2, 5),), "has size 5 at dimension 1"),
        ((torch.ones(1, 4),), "size batch is 1"),
        ((torch.ones(9, 4),), "size batch is 9"),
        ((3,), "argument input is a int"),
        (([torch.ones(2, 4)],), "structure"),
        ((), "structure"),
        ((torch.ones(2, 4), torch.ones(2, 4)), "structure (_, _), and the program takes (_,)"),
        ((None,), "argument input is a NoneType"),
        ((object(),), "argument input is a object"),
        ((torch.ones(2, 4).numpy(),), "argument input is a ndarray"),
        ((torch.ones(2, 4).to_sparse(),), "has layout torch.sparse_coo"),
        ((torch.ones(2, 4).to_mkldnn(),), "has layout torch._mkldnn"),
        ((torch.ones(2, 4, dtype=torch.complex64).conj(),), "has dtype torch.complex64"),
        ((torch.ones(()),), "has 0 dimensions"),
        ((torch.ones(0, 4),), "size batch is 0"),
    ],
)
def test_a_call_that_the_program_does_not_serve(args, words, served):
    for called in served:
        text = refusal(called, *args)
        assert words in text and "Fix: " in text


def test_a_call_that_breaks_a_relation():
    shapes = ({0: 2 * Dim("half")}, {0: Dim("half")})
    exported = minitorch2.export(
        lambda x, y: x.sum() + y.sum(), (torch.ones(6), torch.ones(3)), dynamic_shapes=shapes
    )
    assert exported(torch.ones(8), torch.ones(4)) == 12
    assert "2 * half" in refusal(exported, torch.ones(8), torch.ones(3))


def test_an_argument_that_is_a_constant_of_the_program():
    exported = minitorch2.export(lambda x, k: x * k, (torch.ones(3), 2))
    assert "argument k is 3; the program was exported for 2" in refusal(exported, torch.ones(3), 3)
    assert "argument k is True" in refusal(exported, torch.ones(3), True)


# Files --------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    program().save(tmp_path / "program.mt2")
    return tmp_path / "program.mt2"


def rewrite(file, name, data):
    """Replace one entry of a file."""
    with zipfile.ZipFile(file) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    entries[name] = data(entries[name])
    with zipfile.ZipFile(file, "w") as archive:
        for each, content in entries.items():
            archive.writestr(each, content)


def test_truncated_files(file):
    data = file.read_bytes()
    for length in (0, 10, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:length])
        assert "truncated" in refusal(minitorch2.load, file)


def test_a_changed_byte_anywhere_is_found_or_has_no_meaning(file):
    data, x = file.read_bytes(), torch.ones(2, 4)
    expected = minitorch2.load(file)(x)
    for place in range(0, len(data), 97):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            assert torch.equal(minitorch2.load(file)(x), expected)
        except ExportError as error:
            assert error.code == "export-file"


def test_a_changed_entry(file):
    rewrite(file, "graph.json", lambda data: data.replace(b"addmm", b"mm"))
    assert "was changed: graph.json" in refusal(minitorch2.load, file)


def test_a_later_version(file):
    def later(data):
        return json.dumps({**json.loads(data), "version": 99}).encode()

    rewrite(file, "manifest.json", later)
    assert "version 99 of the format, and 1 is known" in refusal(minitorch2.load, file)


def test_a_zip_file_of_another_program(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "other.pt")
    assert "no exported program" in refusal(minitorch2.load, tmp_path / "other.pt")


def test_names_of_a_graph_are_looked_up_in_a_short_list(file, monkeypatch):
    monkeypatch.setattr("minitorch2.exporting.container.hashlib.sha256", lambda data: Same())
    program().save(file)
    rewrite(file, "graph.json", lambda data: data.replace(b"torch.ops.aten.t.default", b"os.abort"))
    assert "os.abort, which is not known here" in refusal(minitorch2.load, file)


class Same:
    """A digest that finds no change."""

    def hexdigest(self):
        return ""


def test_a_result_that_is_an_object():
    text = refusal(
        minitorch2.export, lambda x: (x, object), (torch.ones(2),), error=GraphBreakError
    )
    assert "a result is no tensor, number or text" in text and "<minitorch2" not in text


def test_a_container_that_no_file_can_hold(tmp_path):
    exported = minitorch2.export(lambda x: deque([x]), (torch.ones(2),))
    assert "cannot hold the container deque" in refusal(exported.save, tmp_path / "program.mt2")
    assert not [*tmp_path.iterdir()]


PATHS = {
    "None": (lambda folder: None, "the path is a NoneType", "the name of a file"),
    "a number": (lambda folder: 12345, "the path is a int", "the name of a file"),
    "a folder": (lambda folder: folder, "is a folder", "the name of a file in it"),
    "in no folder": (lambda folder: folder / "no" / "p.mt2", "there is no folder", "make it"),
}


@pytest.mark.parametrize(("path", "cause", "fix"), PATHS.values(), ids=PATHS)
def test_paths_that_name_no_file(path, cause, fix, tmp_path):
    exported = program()
    writers = (exported.save, lambda path: minitorch2.package(exported, path))
    readers = (minitorch2.load,) if cause.startswith("the path") else ()
    for use in (*writers, *readers):
        text = refusal(use, path(tmp_path))
        assert cause in text and fix in text and "export-file" in text


def test_files_that_cannot_be_opened_are_named(tmp_path):
    for path in (tmp_path / "none.mt2", tmp_path):
        assert str(path) in refusal(minitorch2.load, path, error=OSError)


def reseal(file, **changed):
    """Replace entries of a file, or leave them out, with digests that fit."""
    with zipfile.ZipFile(file) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    for name, change in changed.items():
        name = next(each for each in entries if each.startswith(name))
        data = change(entries.pop(name))
        entries |= {} if data is None else {name: data}
    kept = {name: data for name, data in entries.items() if name != "digests.json"}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in kept.items()}
    entries |= {} if "digests" in changed else {"digests.json": json.dumps(digests).encode()}
    with zipfile.ZipFile(file, "w") as archive:
        for each, content in entries.items():
            archive.writestr(each, content)


def in_manifest(**changes):
    return lambda data: json.dumps(json.loads(data) | changes).encode()


def nothing(data):
    return None


DAMAGE = {
    "no manifest": {"manifest": nothing},
    "a manifest that is a list": {"manifest": lambda data: b"[]"},
    "a manifest that is no JSON": {"manifest": lambda data: b"{"},
    "a version that is a text": {"manifest": in_manifest(version="new")},
    "another kind": {"manifest": in_manifest(kind="song")},
    "no signature": {"manifest": in_manifest(signature=None)},
    "no tensors": {"manifest": in_manifest(tensors={})},
    "tensors without form": {"manifest": in_manifest(tensors={"weight": {}})},
    "digests that are a list": {"digests": lambda data: b"[1]"},
    "no digests": {"digests": nothing},
    "no data": {"data": nothing},
    "short data": {"data": lambda data: data[:3]},
}
OF_PROGRAMS = {
    "no graph": {"graph": nothing},
    "a graph that is a list": {"graph": lambda data: b"[]"},
    "a graph without nodes": {"graph": lambda data: b'{"inputs": [], "nodes": []}'},
}
OF_PACKAGES = {
    "no images": {"manifest": in_manifest(images={})},
    "images without code": {"code": nothing},
    "no wrapper": {"wrapper": nothing},
    "a wrapper that is no Python": {"wrapper": lambda data: b"def ("},
    "a wrapper without a call": {"wrapper": lambda data: b"x = 1"},
}


@pytest.mark.parametrize("changed", (DAMAGE | OF_PROGRAMS).values(), ids=DAMAGE | OF_PROGRAMS)
def test_a_program_that_is_damaged_and_sealed_again(changed, file):
    reseal(file, **changed)
    text = refusal(minitorch2.load, file)
    assert "export-file" in text and "Fix: " in text


@pytest.mark.parametrize("changed", (DAMAGE | OF_PACKAGES).values(), ids=DAMAGE | OF_PACKAGES)
def test_a_package_that_is_damaged_and_sealed_again(changed, package_file, tmp_path):
    copy = tmp_path / "package.mt2"
    copy.write_bytes(package_file.read_bytes())
    reseal(copy, **changed)
    text = refusal(minitorch2.load, copy)
    assert "export-file" in text and "Fix: " in text


# Packages -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "package.mt2"
    minitorch2.package(program(input={0: Dim("batch")}), path)
    return path


def test_a_package_for_another_machine(package_file, monkeypatch):
    monkeypatch.setattr(loaded_package, "levels_here", lambda: ("x86-64-v1",))
    text = refusal(minitorch2.load, package_file)
    assert "this machine runs x86-64-v1" in text and "machines=..." in text


def test_a_package_for_another_version_of_torch(package_file, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "1.0.0")
    assert "and this is PyTorch 1.0.0" in refusal(minitorch2.load, package_file)


def test_a_kind_of_machine_that_does_not_exist(tmp_path):
    text = refusal(minitorch2.package, program(), tmp_path / "p.mt2", machines=["pdp-11"])
    assert "x86-64-v3" in text


@pytest.mark.parametrize("machines", [(), "x86-64-v3", 3, [3]])
def test_kinds_of_machines_are_a_list_of_names(machines, tmp_path):
    text = refusal(minitorch2.package, program(), tmp_path / "p.mt2", machines=machines)
    assert "x86-64-v3" in text.partition("Fix: ")[2] and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("given", [None, torch.nn.Linear(4, 3), "program.mt2"])
def test_a_package_of_what_is_not_exported(given, tmp_path):
    text = refusal(minitorch2.package, given, tmp_path / "p.mt2")
    assert "which is not exported" in text and "minitorch2.export(model, args)" in text


def test_a_package_is_not_made_where_no_object_code_can_be(tmp_path, monkeypatch):
    monkeypatch.setattr(machines.platform, "machine", lambda: "s390x")
    assert "this is s390x" in refusal(minitorch2.package, program(), tmp_path / "p.mt2")


def test_a_package_of_a_function_of_this_process_only():
    with pytest.raises(ExportError, match="a package cannot call minitorch2"):
        packaging.wrapper_for_packages("from minitorch2.secret import call")


def test_a_package_checks_what_the_signature_says(package_file):
    package = minitorch2.load(package_file)
    x = torch.ones(5, 4)
    torch.testing.assert_close(package(x), linear()(x))
    assert "has dtype" in refusal(package, x.double())
    assert "size batch is 1" in refusal(package, x[:1])


def test_a_package_takes_tensors_of_any_strides(package_file):
    x = torch.randn(4, 5).t()
    torch.testing.assert_close(minitorch2.load(package_file)(x), linear()(x))


def test_a_condition_on_sizes_suggests_the_nearest_that_are_served():
    def halves(x):
        return x.view(2, -1, 4).sum(0)

    made = minitorch2.export(halves, (torch.ones(6, 4),), dynamic_shapes=({0: Dim.AUTO},))
    assert "Fix: pass x.shape[0] = 4 or 6, or export" in refusal(made, torch.ones(5, 4))


# What eager refuses -------------------------------------------------------------------------------


MIXED = {
    "a float64 example of a linear layer": (linear, torch.ones(2, 4).double()),
    "an example of integers": (linear, torch.ones(2, 4).long()),
    "an example without data": (linear, torch.ones(2, 4, device="meta")),
    "a float64 example of a layer norm": (lambda: torch.nn.LayerNorm(4), torch.ones(2, 4).double()),
    "a float64 example of a group norm": (
        lambda: torch.nn.GroupNorm(2, 4), torch.ones(2, 4).double()),
    "a sum of tensors of two devices": (
        lambda: lambda x: x + torch.ones(4), torch.ones(4, device="meta")),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_operands_that_eager_refuses_are_refused_by_export_with_its_words(case, dynamic):
    make, x = MIXED[case]
    shapes = ({0: Dim("n")},) if dynamic and x.dim() > 1 and "group" not in case else None
    with pytest.raises(RuntimeError) as eager:
        make()(x)
    with pytest.raises(ExportError) as ours:
        minitorch2.export(make(), (x,), dynamic_shapes=shapes)
    assert ours.value.user_line is not None
    assert str(eager.value).partition("\n")[0] in str(ours.value)


def test_operands_of_several_dtypes_that_eager_takes_are_exported():
    def mixes(x, rows):
        return x.double() + x, x[rows], torch.where(x > 0, x, 1)

    given = torch.randn(4, 3), torch.tensor([0, 2])
    for ours, eager in zip(minitorch2.export(mixes, given)(*given), mixes(*given), strict=True):
        assert torch.equal(ours, eager) and ours.dtype == eager.dtype


def test_two_ranges_of_one_name_are_refused_with_both():
    def both(a, b):
        return a.sum() + b.sum()

    x = torch.ones(4, 4)
    shapes = {"a": {0: Dim("n", max=8)}, "b": {0: Dim("n", max=64)}}
    text = refusal(minitorch2.export, both, (x, x.clone()), dynamic_shapes=shapes)
    assert "max=8" in text and "max=64" in text and "another name" in text
    related = {"a": {0: Dim("n", max=8)}, "b": {0: 2 * Dim("n")}}
    served = minitorch2.export(both, (x, torch.ones(8, 4)), dynamic_shapes=related)
    assert served(x[:3], torch.ones(6, 4)) == 36


def test_pickling_a_program_a_module_or_a_package_names_save(tmp_path):
    exported = program()
    minitorch2.package(exported, tmp_path / "package.mt2")
    for each in (exported, exported.module(), minitorch2.load(tmp_path / "package.mt2")):
        for write in (pickle.dumps, lambda given: torch.save(given, tmp_path / "pickled.pt")):
            assert "program.save" in refusal(write, each)
        x = torch.ones(2, 4)
        assert torch.equal(copy.deepcopy(each)(x), each(x))


@pytest.mark.parametrize("action", ["load", "save"])
def test_a_bundle_in_no_folder_is_named_with_a_fix(action, tmp_path, capsys):
    assert cache_command.main([action, str(tmp_path / "missing" / "bundle")]) == 1
    text = capsys.readouterr().err
    assert (
        text.startswith(f"cannot {action} {tmp_path}") and "Fix: " in text and "Errno" not in text
    )
