"""Guards keep nothing of the user's alive, and an entry goes with what it recognizes by its id."""

import gc
import weakref

import torch

import minitorch2
from minitorch2 import stages
from minitorch2.bytecode.dispatch import dispatcher_of
from tests.unit.bytecode.capturing import capture

X = torch.ones(3)


def entries_of(compiled):
    dispatcher = dispatcher_of(compiled)
    assert dispatcher is not None
    return dispatcher.entries


def make_class(factor):
    class Local:
        def __init__(self):
            self.offset = 1

        def scaled(self, x):
            return x * factor + self.offset

    return Local


def test_a_class_and_its_methods_die_with_their_entry():
    compiled = capture(lambda x, thing: thing.scaled(x))
    cls = make_class(2)
    assert torch.equal(compiled(X, cls()), X * 2 + 1)
    assert len(entries_of(compiled)) == 1
    reference = weakref.ref(cls)
    del cls
    gc.collect()
    assert reference() is None
    assert entries_of(compiled) == []


def test_a_function_argument_dies_with_its_entry():
    compiled = capture(lambda x, f: f(x))
    helper = eval("lambda x: x * 3")
    reference = weakref.ref(helper)
    assert torch.equal(compiled(X, helper), X * 3)
    del helper
    gc.collect()
    assert reference() is None
    assert entries_of(compiled) == []


def test_a_module_that_dies_frees_what_was_compiled_for_its_class():
    compiled = capture(lambda x, module: module(x))

    def once():
        class Scale(torch.nn.Module):
            def forward(self, x):
                return x * 2

        assert torch.equal(compiled(X, Scale()), X * 2)
        return weakref.ref(Scale)

    reference = once()
    gc.collect()
    assert reference() is None
    assert entries_of(compiled) == []


def test_an_id_that_is_used_again_is_no_match():
    """Short-lived functions and classes: some get the address of a dead one."""
    compiled = capture(lambda x, f, thing: f(x) + thing.scaled(x))
    for factor in range(8):
        thing = make_class(factor)()
        function = eval(f"lambda x: x * {factor}")
        assert torch.equal(compiled(X, function, thing), X * factor * 2 + 1)
        del thing, function
        gc.collect()


def test_forgotten_entries_leave_nothing_at_the_objects_they_watched():
    """Finalizers of a function that lives on used to keep every entry that was ever made."""

    def helper(x):
        return x + 1

    compiled, counts = capture(lambda x, f: f(x)), []
    for _ in range(3):
        compiled(X, helper)
        counts.append(weakref.getweakrefcount(helper.__code__))
        minitorch2.reset()
        gc.collect()
    assert len(set(counts)) == 1


def test_an_entry_is_not_dropped_while_its_objects_live():
    compiled, cls = capture(lambda x, thing: thing.scaled(x)), make_class(2)
    for _ in range(3):
        with stages.collect() as log:
            compiled(X, cls())
        gc.collect()
    assert log.counts["frames"] == 0
