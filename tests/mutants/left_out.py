"""The planted bugs that `haystacks` does not search, each with the reason."""

from tests.mutants.mutants import Mutant

OF_BUGS = {
    "the text of a check says the opposite of what runs": (
        "what runs is not the text: `test_text_machine_and_explanation_agree` reads both"
    ),
    "kernels that are too many for one are compared loop by loop": (
        "the same kernels come of it, later: `test_few_pairs_of_kernels_are_examined` counts"
    ),
    "expressions of sizes grow without bound": (
        "24 products of sizes compile for more than five minutes, and then are right: "
        "`test_sizes_have_short_expressions` measures their lengths"
    ),
    "the backward program that Python runs in a step is captured": (
        "its steps are right; `test_generated_programs_are_not_captured` reads the breaks that "
        "`explain` lists, which name a generated file"
    ),
    "a backend that fails stops the program": (
        "the search reports each backend that fails, with the bug and without"
    ),
    "entries are read in folders to which others can write": (
        "an entry is what it was when it was written, so each call is right: "
        "`test_only_folders_that_nobody_else_writes_to_are_read` asks who may read"
    ),
    "the interpreter goes round a loop once more": (
        "no program runs it: scripts and their tasks run as Python, "
        "and `test_scripts_do_what_cpython_does` calls the interpreter by itself"
    ),
    "a module that TorchScript has made is evaluated like any other": (
        "a call of a scripted module whose Python does something else was tried, and is right: "
        "`test_models_with_scripted_parts_are_eagers` counts the frames"
    ),
    "a mask that is counted twice gives two sizes": (
        "its calls are right: the graph breaks, and Python computes the rest. "
        "`test_a_program_that_meets_any_data_first_is_one_graph` counts the graphs"
    ),
    "a result of a branch is taken for what one of its sides computes": (
        "a `torch.cond` beside either of its sides was tried, and is right: "
        "`test_elements_of_other_computations_are_counted_apart` counts elements of both"
    ),
    "a name is given that the program has, too": (
        "no call can show it: residual code has prefixes that are no program's, and text of "
        "graphs holds nodes, not names. Parameters called `self`, `torch`, `call`, `buf0` and "
        "`float32` are right: `test_a_scope_gives_each_name_once` asks the scope itself"
    ),
    "hooks that the captured code sets on a leaf are not called": (
        "its steps are right: the graph breaks, and Python sets the hooks. "
        "`test_hooks_that_a_step_sets_are_called` asks for one graph"
    ),
}
"""The bugs that are left, each with what was tried or with the test that sees what no call does."""


def why_left_out(mutant: Mutant) -> str | None:
    """Return the reason why no haystack has a bug; None if there should be one."""
    return OF_BUGS.get(mutant.bug)
