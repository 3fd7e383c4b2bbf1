"""The planted bugs that `haystacks` does not search, each with the reason."""

from tests.mutants.mutants import Mutant

TEXT_OR_MEMORY = "all calls are right: an explanation is wrong, or memory is kept"
STEPS_REMEMBER = "a step depends on the runs in front of it, so each graph is right when run alone"
OF_CONTROL_FLOW = (
    "it needs branches or loops of a script, or its text: a captured graph has neither"
)
CACHE = "two programs share one cache, and the search keeps caches out of its trials"
TRIED = "programs were tried: a few lines of the kind that it is about do not show it"
NOT_IN_RESULTS = (
    "results and gradients of arguments are right: it changes other state, a text or a message"
)
OWN_SETTING = "it needs an operator, a kernel or a mode of the user's, which no needle has"
RARE_CONTROL_FLOW = "a random program must meet it: no program of a few lines shows it"
COMPILING_ENDS = "it slows compiling or changes the error of a program that cannot be compiled"

OF_LAYERS = {
    "graph cache": CACHE,
    "lazy": STEPS_REMEMBER,
    "script": OF_CONTROL_FLOW,
}
"""The reason for all bugs of a layer."""

OF_BUGS = {
    "a maximum's padding is 0 instead of the smallest number": TRIED,
    "the backward program that Python runs in a step is captured": OWN_SETTING,
    "hooks that the captured code sets on a leaf are not called": TRIED,
    "the text of a check says the opposite of what runs": TEXT_OR_MEMORY,
    "classes that guards know live as long as the guards": TEXT_OR_MEMORY,
    "warnings are not issued": TRIED,
    "a key whose class has a hash of its own is looked up as an object": TRIED,
    "an option that compile is given is ignored": NOT_IN_RESULTS,
    "a backend that fails stops the program": COMPILING_ENDS,
    "a name is given that the program has, too": RARE_CONTROL_FLOW,
    "a graph that is given dual tensors loses their tangents": OWN_SETTING,
    "a module that TorchScript has made is evaluated like any other": OWN_SETTING,
    "the override that classes of tensors inherit asks the overrides again": OWN_SETTING,
    "a kept gradient misses what flows through another tensor that keeps its own": TRIED,
    "a file's name that no file can hold stands in generated text": COMPILING_ENDS,
    "expressions of sizes grow without bound": COMPILING_ENDS,
    "a constant that has a symbolic size is folded": TRIED,
    "a mask that is counted twice gives two sizes": COMPILING_ENDS,
    "a kernel of the user's that writes is taken for one that reads": OWN_SETTING,
    "kernels that are too many for one are compared loop by loop": COMPILING_ENDS,
    "new memory is 0 where deterministic algorithms fill it": OWN_SETTING,
    "what a jagged tensor is made of has no gradient beside the tensor": OWN_SETTING,
    "a result that is a view of memory of the graph may not be written to": (
        "its results are right: what the caller does to them afterwards fails"
    ),
    "a dead tensor is the memory of a later result, whatever its layout": (
        "its results are right: PyTorch makes the memory larger, and warns"
    ),
}
"""The reason for one bug, of other layers."""


def why_left_out(mutant: Mutant) -> str | None:
    """Return the reason why no haystack has a bug; None if there should be one."""
    return OF_BUGS.get(mutant.bug) or OF_LAYERS.get(mutant.layer)
