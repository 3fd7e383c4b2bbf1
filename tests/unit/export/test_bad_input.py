"""Bad input of export, of files and of packages: one clear error each."""

import json
import zipfile
from collections import deque

import pytest
import torch

import minitorch2
from minitorch2 import Dim
from minitorch2.errors import DynamicSizeError, ExportError, GraphBreakError
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


# Calls --------------------------------------------------------------------------------------------


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
    ],
)
def test_a_call_that_the_program_does_not_serve(args, words):
    exported = program(input={0: Dim("batch", max=8)})
    assert words in refusal(exported, *args)


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
