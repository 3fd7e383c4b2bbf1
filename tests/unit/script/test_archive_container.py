"""Archives as files: entries that torch.jit reads, names that pickles may use, shared memory."""

import io
import math
import pickle
import zipfile

import pytest
import torch

from minitorch2 import jit
from minitorch2.errors import ArchiveError
from minitorch2.script.archive.container import Contents, read_container, write_container
from minitorch2.script.archive.pickle_subset import (
    Instance,
    SubsetPickler,
    SubsetUnpickler,
    TypedContainer,
)

CODE = """class M(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  sizes : List[int]
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return torch.add(torch.matmul(x, self.weight), CONSTANTS.c0, alpha=torch.len(self.sizes))
"""


def typed(value, annotation):
    return TypedContainer(value, annotation, value)


def write(state, code=CODE, constants=()):
    file = io.BytesIO()
    write_container(Contents(Instance("__torch__.M", state), {"__torch__": code}, constants), file)
    return io.BytesIO(file.getvalue())


def repickled(value):
    pickler = SubsetPickler()
    data = pickler.dumps(value)
    return SubsetUnpickler(data, lambda key: bytes(pickler.storages[int(key)])).read()


def test_torch_jit_runs_an_archive_of_ours():
    weight = torch.randn(3, 2, requires_grad=True)
    state = {"weight": weight, "sizes": typed([4, 5], "List[int]")}
    theirs = torch.jit.load(write(state, constants=(torch.tensor([1.0, 2.0]),)))
    x = torch.randn(4, 3)
    torch.testing.assert_close(theirs(x), x @ weight + 2 * torch.tensor([1.0, 2.0]))
    assert [name for name, _ in theirs.named_parameters()] == ["weight"]


def test_archives_of_torch_jit_are_read():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), file, _extra_files={"note": "hello"})
    contents = read_container(io.BytesIO(file.getvalue()))
    # torch.jit numbers classes of one name in a process: `linear.___torch_mangle_2.Linear`.
    assert contents.root.class_name.startswith("__torch__.torch.nn.modules.linear.")
    assert contents.root.state["weight"].shape == (3, 2)
    assert "torch.linear(input, weight, bias)" in "".join(contents.code.values())
    assert contents.extra_files == {"note": b"hello"}


def test_memory_of_tensors_begins_at_multiples_of_64():
    file = write({"weight": torch.ones(3), "other": torch.ones(5, dtype=torch.int8)})
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            data = file.getvalue()[entry.header_offset :]
            start = entry.header_offset + 30 + sum(int.from_bytes(data[i : i + 2], "little")
                                                   for i in (26, 28))  # fmt: skip
            assert start % 64 == 0


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**31, -(2**63), 1.5, math.inf, 1 - 2j, "tür\n'\"", (), (1, (2.0, None))],
)
def test_values_survive(value):
    read = repickled(Instance("__torch__.M", {"value": value})).state["value"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16, torch.bool, torch.complex64])
def test_tensors_survive_with_their_layout(dtype):
    tensor = torch.arange(12).reshape(3, 4).to(dtype).t()[1:]
    read = repickled(tensor)
    assert (read.dtype, read.stride(), read.storage_offset()) == (dtype, tensor.stride(), 1)
    assert torch.equal(read, tensor)


def test_what_shared_memory_or_was_one_object_still_is():
    base, numbers = torch.zeros(2, 3), []
    shared = Instance("__torch__.Part", {"base": base})
    state = {
        "view": base[1:],
        "empty": torch.empty(0, 3),
        "parts": (shared, shared),
        "lists": (typed(numbers, "List[int]"), typed(numbers, "List[int]")),
    }
    read = repickled(Instance("__torch__.M", state)).state
    read["view"].fill_(1)
    assert read["parts"][0] is read["parts"][1]
    assert read["parts"][0].state["base"][1].tolist() == [1, 1, 1]
    assert read["lists"][0] is read["lists"][1]
    assert read["empty"].shape == (0, 3)


class Evil:
    def __reduce__(self):
        return eval, ("1/0",)


@pytest.mark.parametrize("value", [Evil(), torch.nn.Linear, io.BytesIO(), range(3)])
def test_a_pickle_that_names_anything_else_is_refused(value):
    with pytest.raises(ArchiveError, match="does not admit"):
        SubsetUnpickler(pickle.dumps(value, 2), lambda key: b"").read()


def test_a_tensor_that_reaches_beyond_its_memory_is_refused():
    pickler = SubsetPickler()
    data = pickler.dumps(torch.ones(4))
    with pytest.raises(ArchiveError, match="beyond its memory"):
        SubsetUnpickler(data, lambda key: bytes(8)).read()


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x03\x04"])
def test_other_files_are_refused(data):
    with pytest.raises(ArchiveError):
        read_container(io.BytesIO(data))


def test_values_that_no_archive_holds_are_refused():
    with pytest.raises(ArchiveError, match="type function"):
        SubsetPickler().dumps(repickled)
    with pytest.raises(ArchiveError, match="sparse"):
        SubsetPickler().dumps(torch.eye(2).to_sparse())


OLD = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  def forward(self: __torch__.M,
    x: Tensor,
    y: Tensor,
    n: int) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    z = torch.div_(torch.clone(x), n)
    w = torch.div_(torch.clone(x), y)
    filled = torch.full([2], n)
    steps = torch.linspace(0, 1, 5)
    return (torch.div(x, y), torch.div(x, n), z, w, filled, steps)
"""


@pytest.mark.parametrize(
    ("version", "dtype"),
    [(3, torch.int64), (3, torch.float32), (4, torch.float32), (10, torch.float32)],
)
def test_operators_of_old_archives_mean_what_they_meant(version, dtype):
    file = io.BytesIO()
    write_container(
        Contents(Instance("__torch__.M", {}), {"__torch__": OLD}, version=version), file
    )
    x, y = torch.tensor([7, -7], dtype=dtype), torch.tensor([2, 2], dtype=dtype)
    expected = torch.jit.load(io.BytesIO(file.getvalue()))(x, y, 2)
    torch.testing.assert_close(jit.load(io.BytesIO(file.getvalue()))(x, y, 2), expected)


def test_archives_of_a_version_that_nobody_knows_are_refused():
    file = io.BytesIO()
    write_container(Contents(Instance("__torch__.M", {}), {"__torch__": CODE}, version=99), file)
    with pytest.raises(ArchiveError, match="version 99 of the operators"):
        jit.load(io.BytesIO(file.getvalue()))


def test_steps_that_an_old_archive_leaves_out_are_100():
    code = OLD.replace("torch.linspace(0, 1, 5)", "torch.linspace(0, 1, None)")
    file = io.BytesIO()
    write_container(Contents(Instance("__torch__.M", {}), {"__torch__": code}, version=7), file)
    one = torch.ones(2)
    assert len(jit.load(io.BytesIO(file.getvalue()))(one, one, 1)[-1]) == 100
