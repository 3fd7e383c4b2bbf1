"""The planted bugs that `haystacks` does not search, each with the reason."""

from tests.mutants.mutants import Mutant

SECOND_CALL = "the program must change between two calls, beside the arguments of a call"
NO_COMPILED_GRAPH = "it is no part of what `compile` does, and the search runs compiled functions"
NOT_IN_RESULTS = (
    "results and gradients of arguments are right: it changes other state, a text or a message"
)
OWN_SETTING = "it needs an operator, a kernel or a mode of the user's, which no needle has"
NEEDS_GPU = "it needs a GPU, or the interpreter of its kernels"
RARE_CONTROL_FLOW = "a random program must meet it: no program of a few lines shows it"
WRITES_IN_TESTS = "only graphs with writes show it, which a test hands to the pass"
EAGER_RAISES = "eager PyTorch raises there, and a trial compares only what eager computes"
COMPILING_ENDS = "it slows compiling or changes the error of a program that cannot be compiled"

OF_LAYERS = {
    "bytecode machine": RARE_CONTROL_FLOW,
    "guards": SECOND_CALL,
    "graph cache": SECOND_CALL,
    "lazy": NO_COMPILED_GRAPH,
    "script": NO_COMPILED_GRAPH,
    "codegen triton": NEEDS_GPU,
}
"""The reason for all bugs of a layer."""

OF_BUGS = {
    "both sides of a graph break at a branch go on in the same place": RARE_CONTROL_FLOW,
    "changes of dicts that came from outside are lost": NOT_IN_RESULTS,
    "of two writes to a global variable the first one counts": NOT_IN_RESULTS,
    "of two gradients of a leaf the second one counts": NOT_IN_RESULTS,
    "hooks of leaves are lost": NOT_IN_RESULTS,
    "hooks that the captured code sets on a leaf are not called": NOT_IN_RESULTS,
    "hooks that the captured code sets on a module are not called": NOT_IN_RESULTS,
    "the backward program that Python runs in a step is captured": OWN_SETTING,
    "hooks are not called where captured code finds the gradient of what it computes": OWN_SETTING,
    "instances do not see what was assigned to their class": RARE_CONTROL_FLOW,
    "a context variable that is set is not set at the end": NOT_IN_RESULTS,
    "a generator that was seeded is left as it was": NOT_IN_RESULTS,
    "what is chosen at random is always the first": "eager chooses at random, too",
    "warnings are not issued": NOT_IN_RESULTS,
    "a key whose class has a hash of its own is looked up as an object": RARE_CONTROL_FLOW,
    "an option that compile is given is ignored": NOT_IN_RESULTS,
    "a backend that fails stops the program": COMPILING_ENDS,
    "the text of a shape has the names of its symbols": NOT_IN_RESULTS,
    "a name is given that the program has, too": RARE_CONTROL_FLOW,
    "a graph that is given dual tensors loses their tangents": OWN_SETTING,
    "a checkpoint that writes to a buffer is computed again as a whole": OWN_SETTING,
    "a module that TorchScript has made is evaluated like any other": OWN_SETTING,
    "the override that classes of tensors inherit asks the overrides again": OWN_SETTING,
    "an attribute that is no name of Python's is written behind a dot": COMPILING_ENDS,
    "behind a break an id is not found among the numbers that ids became": RARE_CONTROL_FLOW,
    "a graph breaks between a tensor and a later question about its gradient": RARE_CONTROL_FLOW,
    "a kept gradient misses what flows through another tensor that keeps its own": NOT_IN_RESULTS,
    "a write to what max has chosen is lost": RARE_CONTROL_FLOW,
    "a file's name that no file can hold stands in generated text": COMPILING_ENDS,
    "expressions of sizes grow without bound": COMPILING_ENDS,
    "a constant that has a symbolic size is folded": SECOND_CALL,
    "a mask that is counted twice gives two sizes": COMPILING_ENDS,
    "a kernel of the user's that writes is taken for one that reads": OWN_SETTING,
    "kernels that are too many for one are compared loop by loop": COMPILING_ENDS,
    "what a kernel of the user's has written in place is given to another result": OWN_SETTING,
    "equal values that an operator of the user's writes are one tensor": OWN_SETTING,
    "new memory is 0 where deterministic algorithms fill it": OWN_SETTING,
    "a call that may raise and that nobody reads is dead code": EAGER_RAISES,
    "equal reads are merged across a write": WRITES_IN_TESTS,
    "a write whose result nobody reads is dead code": WRITES_IN_TESTS,
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
