"""Writes are deferred, collapsed, dropped when nobody can see them, and replayed in order."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.unit.bytecode.capturing import capture, check, residual

X = torch.tensor([1.0, -2.0, 3.0])
total = 0
names = ["first"]


class Record:
    def __init__(self, value=0):
        self.value = value

    def add(self, amount):
        self.value = self.value + amount


def test_global_is_written_once_and_read_back():
    def f(x):
        global total
        total = 1
        total = total + 2
        return x + total

    log = check(f, X, graphs=1)
    assert residual(log).count("total =") == 1
    assert "global total" in residual(log)
    assert total == 3


def test_global_of_another_module_is_written_there():
    import tests.unit.bytecode.other_module as other

    def f(x):
        other.increase(2)
        return x * other.count

    other.count = 0
    compiled = capture(f)
    assert torch.equal(compiled(X), X * 2)
    assert other.count == 2


def test_attribute_write_reaches_the_object():
    def f(x, record):
        record.value = 7
        record.value = record.value + 1
        record.fresh = x * 2
        return record.fresh + record.value

    record = Record()
    log = check(f, X, record, graphs=1)
    assert residual(log).count(".value = ") == 1


def test_deleted_attribute_is_gone():
    def f(x, record):
        del record.value
        return x + hasattr(record, "value")

    check(f, X, Record(), graphs=1)


def test_list_is_changed_in_place():
    def f(x, items):
        items.append(x.sum())
        items[0] = 5
        items.insert(1, 2)
        return x + items[0] + len(items)

    check(f, X, [1, 2], graphs=1)


def test_alias_of_a_changed_list_sees_the_change():
    def f(x, items):
        other = items
        other.append(3)
        return items, x + items[-1]

    items = [1]
    value, _ = capture(f)(items=items, x=X)
    assert value is items
    assert items == [1, 3]


def test_two_paths_to_one_list_are_one_list():
    def f(x, a, b):
        a.append(1)
        return x + len(b)

    compiled, one = capture(f), []
    assert torch.equal(compiled(X, one, one), X + 1)
    assert torch.equal(compiled(X, [], []), X + 0)
    assert torch.equal(compiled(X, one, one), X + 2)


def test_distinct_lists_that_become_one_are_captured_again():
    def f(x, a, b):
        a.append(1)
        return x + len(b)

    compiled, one = capture(f), []
    assert torch.equal(compiled(X, [], []), X)
    assert torch.equal(compiled(X, one, one), X + 1)


def test_dict_keeps_identity_and_order():
    def f(x, table):
        table["z"] = x * 2
        table["a"] += 1
        del table["b"]
        table.setdefault("q", []).append(x)
        return table["z"]

    log = check(f, X, {"a": 1, "b": 2}, graphs=1)
    assert log.counts["graph_breaks"] == 0


def test_set_is_changed_in_place():
    def f(x, seen):
        seen.add(3)
        seen.discard(1)
        return x + len(seen)

    check(f, X, {1, 2}, graphs=1)


def test_list_that_does_not_escape_leaves_no_code():
    def f(x):
        items = [x]
        items.append(x + 1)
        return sum(items)

    log = check(f, X, graphs=1)
    assert "append" not in residual(log)
    assert "[" not in residual(log)


def test_object_that_does_not_escape_leaves_no_code():
    def f(x):
        record = Record(x)
        record.add(2)
        return record.value

    log = check(f, X, graphs=1)
    assert "Record" not in residual(log)


def test_object_that_escapes_is_made_without_its_constructor():
    class Noisy:
        def __init__(self, value):
            self.value = value

    def f(x):
        noisy = Noisy(x + 1)
        noisy.more = [noisy.value]
        return noisy

    compiled = capture(f)
    result = compiled(X)
    assert type(result) is Noisy
    assert result.more[0] is result.value
    assert torch.equal(result.value, X + 1)


def test_objects_that_refer_to_each_other():
    def f(x):
        a, b = Record(x), Record(1)
        a.other, b.other = b, a
        return a

    result = capture(f)(X)
    assert result.other.other is result


def test_effects_before_a_break_are_visible_to_it():
    def f(x, items):
        global total
        total = 10
        items.append(4)
        print(total, items)
        total = 11
        return x + total

    check(f, X, [1], graphs=1, breaks=1)


def test_values_are_read_before_they_are_overwritten():
    def f(x, record):
        old = record.value
        record.value = x + 1
        return old, record.value

    check(f, X, Record(3), graphs=1)


def test_swap_of_list_elements():
    def f(x, items):
        items[0], items[1] = items[1], items[0]
        return x + 1

    check(f, X, [X + 1, X + 2], graphs=1)


def test_tensor_arguments_are_changed_in_place():
    def f(x, y):
        x.add_(1)
        y[0] = 5
        x += y
        return x * y

    check(f, X, X + 1, graphs=1)


def test_default_argument_list_is_shared_between_calls():
    def f(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x + len(seen)

    compiled = capture(f)
    assert [int(compiled(X)[0]) for _ in range(3)] == [2, 3, 4]


def test_random_numbers_are_drawn_by_the_graph():
    def f(x):
        return x + torch.rand(3)

    compiled = capture(f)
    torch.manual_seed(1)
    first, second = compiled(X), compiled(X)
    torch.manual_seed(1)
    assert torch.equal(first, f(X))
    assert torch.equal(second, f(X))


def test_dropped_random_draw_still_moves_the_generator():
    def f(x):
        torch.rand(3)
        return x + torch.rand(3)

    check(f, X, graphs=1)


def test_a_log_that_grows_is_compiled_once():
    losses = []

    def f(x):
        losses.append(x.sum())
        names.extend(["one", "two"])
        return x.sin()

    before = len(names)
    compiled = capture(f)
    for _ in range(12):
        compiled(X)
    del names[before:]
    assert [loss.item() for loss in losses] == [X.sum().item()] * 12
    assert not compiled.recompiles()


def test_a_log_that_is_read_is_guarded():
    log = [torch.ones(3)]

    def f(x):
        log.append(x)
        return x + len(log) + log[0]

    compiled = capture(f)
    for length in (2, 3, 4):
        assert torch.equal(compiled(X), X + length + 1)
    assert all(entry is X for entry in log[1:])


def _noted_in_a_checkpoint(x):
    seen = []
    result = checkpoint(lambda x: seen.append(x * 2) or x.cos(), x.sin(), use_reentrant=False)
    return result, seen


def _noted_in_a_branch(x):
    seen = {}

    def branch(x):
        seen["x"] = x * 2
        return x.cos()

    return torch.cond(x.sum() > 0, branch, branch, (x.sin(),)), seen


def _noted_in_a_hook(x):
    seen, y = [], x.sin()
    y.register_hook(lambda gradient: seen.append(gradient * 2))
    y.sum().backward()
    return y.detach(), seen, x.grad


@pytest.mark.parametrize("program", [_noted_in_a_checkpoint, _noted_in_a_hook])
def test_a_part_of_its_own_changes_a_container_of_the_frame(program):
    """Regression: the container held tensors that no graph returned."""
    found, wanted = (f(torch.ones(3, requires_grad=True)) for f in (capture(program), program))
    torch.testing.assert_close(found, wanted)


def test_a_branch_changes_a_container_of_the_frame():
    _, seen = capture(_noted_in_a_branch)(torch.ones(3))  # eager PyTorch refuses it
    torch.testing.assert_close(seen["x"], torch.ones(3).sin() * 2)
