"""Every stage is recorded, line by line, and each line with what it comes from."""

import linecache

import torch

import minitorch2
from minitorch2 import stages
from minitorch2.explorer.fusion import NEVER_TRIED, _tried, why_not
from minitorch2.explorer.recorder import Recorder
from minitorch2.explorer.store import ScheduledNode, compilation_data, compilation_of
from minitorch2.loopir.schedule import FusionDecision, Refusal

KINDS = {
    "source", "bytecode", "graph", "joint", "forward", "backward", "ir forward", "ir backward",
    "fusion forward", "fusion backward", "kernels forward", "kernels backward", "wrapper forward",
    "wrapper backward", "guards", "residual",
}  # fmt: skip


def rows(compilation):
    return [(pane, row) for pane in compilation.panes for row in pane.rows]


def key_of(compilation, kind, text):
    """Return the key of the row of a pane that holds a text."""
    found = [row for row in compilation.pane(kind).rows if text in row.text and row.key]
    assert found, f"no row of {kind} says {text}"
    return found[0].key


def made_from(compilation, key):
    """Return the rows that come from a key, however many stages later."""
    keys, found = {key}, []
    for pane, row in [*rows(compilation), *rows(compilation), *rows(compilation)]:
        if keys & {*row.origins}:
            keys |= {row.key} - {""}
            found.append((pane.kind, row.text.strip()))
    return set(found)


def test_all_stages_have_panes(first):
    assert {pane.kind for pane in first.panes} == KINDS
    assert all(pane.rows for pane in first.panes)


def test_keys_are_unique_and_origins_resolve(store):
    for compilation in store.compilations.values():
        keys = [row.key for _, row in rows(compilation) if row.key]
        assert len(keys) == len(set(keys))
        assert {key for _, row in rows(compilation) for key in row.origins} <= {*keys}
        boxes = [
            box.key for pane in compilation.panes if pane.drawing for box in pane.drawing.boxes
        ]
        assert {*boxes} <= {*keys}


def test_a_line_leads_to_its_kernels_forward_and_backward(first):
    found = made_from(first, key_of(first, "source", "return h * torch.sigmoid"))
    kinds = {kind for kind, _ in found}
    assert {"bytecode", "graph", "joint", "forward", "backward"} <= kinds
    assert {"ir forward", "ir backward", "kernels forward", "kernels backward"} <= kinds
    assert any("sigmoid(tmp" in text for kind, text in found if kind == "kernels forward")
    assert not any("@" in text for kind, text in found if kind == "graph")


def test_a_node_comes_from_the_instruction_that_made_it(first):
    made = {row.key: row.origins for row in first.pane("graph").rows if row.key}
    by_key = {row.key: row.text for row in first.pane("bytecode").rows}
    assert "BINARY_OP '@'" in by_key[made["graph:matmul"][0]]
    assert "BINARY_OP '*'" in by_key[made["graph:mul"][0]]  # in the inlined function
    assert "COMPARE_OP" in by_key[made["graph:gt"][0]]


def test_a_derivative_comes_from_the_operator_that_it_differentiates(first):
    origins = {row.key: row.origins for row in first.pane("joint").rows if row.key}
    assert origins["joint:le"] == ("graph:relu",)  # relu's gradient
    assert origins["joint:mm_1"] == ("graph:matmul",)


def test_the_cut_marks_what_is_saved_and_what_is_computed_again(first):
    pane = first.pane("joint")
    marks = {row.key: row.mark for row in pane.rows if row.mark}
    assert marks["joint:mm"] == "saved"
    assert marks["joint:sigmoid"] == "recomputed"
    assert marks["joint:mul_1"] == "backward"
    sides = {box.label: box.side for box in pane.drawing.boxes}
    assert (sides["relu"], sides["mul_1"], sides["tangent_0"]) == (0, 1, 1)
    over = [label for _, _, label in pane.drawing.edges if label]
    assert over and all(label.endswith(" bytes") for label in over)
    assert "values saved" in pane.drawing.cut


def test_guards_come_from_the_instruction_that_needed_them(first):
    by_key = {row.key: row.text for row in first.pane("bytecode").rows}
    guards = {row.text: row.origins for row in first.pane("guards").rows if row.key}
    assert "LOAD_ATTR 'relu'" in by_key[guards["FUNCTION_MATCH torch.relu"][0]]
    assert "GRAD_MODE" in "".join(guards)


def test_the_break_leads_to_its_continuations(store, first):
    (found,) = first.breaks
    assert found.code == "data-dependent-branch"
    assert linecache.getline(*_place(found.place)).strip() == "if h.sum() > 0:"
    assert len(first.continuations) == 2
    rest = [each for each in store.compilations.values() if each.resumes]
    assert [each.resumes[0] for each in rest] == [first.id]
    assert rest[0].resumes[1] in first.continuations


def _place(text):
    file, _, line = text.rpartition(":")
    return file, int(line)


# Steps --------------------------------------------------------------------------------------------


def states(steps):
    """Yield frame, stack and locals as texts in front of each instruction."""
    frames = {}
    for step in steps.steps:
        stack, names = frames.setdefault(step.frame, ([], {}))
        stack[step.keep :] = [steps.texts[text] for text in step.push]
        names.update(step.locals)
        yield step, list(stack), {name: steps.texts[at] for name, at in names.items() if at >= 0}


def test_steps_show_stack_and_locals(first):
    steps = first.steps
    seen = [(stack, names) for _, stack, names in states(steps)]
    assert (["x: f32[4, 8]", "w: f32[8, 16]"]) in [stack[-2:] for stack, _ in seen]
    assert any(names.get("h") == "relu: f32[4, 16]" for _, names in seen)
    assert {*steps.codes} == {"broken", "half"} and steps.parents == (-1, 0)
    assert seen[-1][0] == ["sum_1: f32[]", "0"]  # in front of the comparison that is branched on


def test_guards_appear_step_by_step(first):
    counts = [step.guards for step in first.steps.steps]
    assert counts == sorted(counts) and counts[0] == 0
    assert len(first.steps.guards) >= counts[-1] > 3
    assert "the graph breaks" in first.steps.end


def test_a_list_that_grows_is_described_again():
    def f(x):
        found = []
        for _ in range(3):
            found.append(x.sin())
        return sum(found)

    store = minitorch2.explain(f, backend="eager")(torch.ones(2)).store
    (compilation,) = store.compilations.values()
    texts = [names["found"] for _, _, names in states(compilation.steps) if "found" in names]
    assert any("sin_1" in text for text in texts) and texts[0] == "list()"


def test_a_frame_that_was_tried_twice_shows_its_last_attempt(first):
    assert first.steps.steps[0].frame == 0
    assert sum(step.index == 0 and step.frame == 0 for step in first.steps.steps) == 1


# Fusion -------------------------------------------------------------------------------------------


def node(name, *reads, kind="kernel"):
    return ScheduledNode(name, kind, tuple(name.split("_")), reads)


def test_the_latest_refusal_of_two_nodes_or_their_parts_answers():
    log = [
        FusionDecision("buf0", "buf2", None, Refusal("no common loops")),
        FusionDecision("buf0", "buf1", (True, True, 4, -1), None),
        FusionDecision("buf0_buf1", "buf2", None, Refusal("another node must run between them")),
    ]
    tried = _tried(log)
    assert why_not(node("buf0_buf1"), node("buf2"), tried).endswith("must run between them")
    assert why_not(node("buf2"), node("buf3"), tried) == NEVER_TRIED
    assert "library call" in why_not(node("buf2"), node("buf5", kind="library call"), tried)


def test_reductions_over_other_loops_say_why_they_are_two_kernels():
    def f(x):
        return x.sum(0), x.sum(1)

    store = minitorch2.explain(f, backend="numba")(torch.ones(40, 30)).store
    (compilation,) = store.compilations.values()
    fusion = compilation.pane("fusion forward").fusion
    assert len(fusion.nodes) == 2
    ((first, second, reason),) = fusion.reasons
    assert (first, second) == (0, 1) and "loops" in reason


# The record ---------------------------------------------------------------------------------------


def test_a_record_survives_json(first):
    again = compilation_of(compilation_data(first))
    assert [pane.rows for pane in again.panes] == [pane.rows for pane in first.panes]
    assert (again.breaks, again.resumes) == (first.breaks, first.resumes)


def test_two_explained_calls_do_not_share_records():
    def f(x):
        return x + 1

    explained = minitorch2.explain(f, backend="eager")
    one, two = explained(torch.ones(2)), explained(torch.ones(3))
    assert len(one.store.compilations) == len(two.store.compilations) == 1


def test_a_recorder_of_the_process_hears_other_threads():
    def f(x):
        return x + 1

    recorder = Recorder()
    stages.open_everywhere(recorder)
    try:
        minitorch2.compile(f, backend="eager", wait=False)(torch.ones(2))
        minitorch2.finish_compiling()
    finally:
        stages.close_everywhere(recorder)
    (found,) = recorder.store.compilations.values()
    assert found.function.endswith("f") and found.pane("graph") is not None


def test_lines_of_an_explained_program_mean_the_same_to_the_compiler():
    """The name of the captured node, which a line is given, makes no two lines different."""
    explanation = minitorch2.explain(lambda x: x.sin().cos(), backend="eager")(torch.ones(2))
    sin, cos = (
        n.meta["source"] for n in explanation.graphs[0].graph.nodes if n.op == "call_method"
    )
    assert (sin.node, cos.node) == ("sin", "cos") and sin == cos
