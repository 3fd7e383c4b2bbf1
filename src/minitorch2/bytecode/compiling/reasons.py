"""The reasons why a graph breaks: every stable code, its meaning, and the user's remedy.

    reason ::= code, meaning, remedy

Whoever raises `unsupported("new-code", ...)` adds its line here; a test compares this table with
the source, both ways. `docs/graph_breaks.md` shows the table with an example of each reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitorch2.errors import UnsupportedError

COMMAND = "python -m minitorch2 why"
"""The command that explains each reason."""

_OUTSIDE = "call it outside the compiled function, or leave the break"
_TENSOR = "compute it with tensor operators"
_BUG = "please report it: `minitorch2.save_call` keeps what a report needs"


@dataclass(frozen=True)
class Reason:
    """One way in which a graph can end early.

    Attributes:
        code: stable name; never reused for another meaning.
        meaning: the construct that capture met, in the user's terms.
        remedy: the change that usually helps.
    """

    code: str
    meaning: str
    remedy: str


_REASONS = (
    # Data of tensors
    Reason(
        "data-dependent-branch",
        "the way the program goes depends on the data of a tensor",
        "use torch.where or torch.cond, or move the branch out of the compiled function",
    ),
    Reason(
        "data-dependent",
        "the outcome of an operator depends on the data of a tensor",
        "use an operator that gives a tensor, such as `(x == y).all()` instead of `torch.equal`",
    ),
    Reason(
        "scalar-read",
        "Python reads a number out of a tensor, as an index of a list and `range` do",
        "keep the number a tensor, or take it out with `item`, which stays in the graph",
    ),
    # Autograd
    Reason(
        "autograd-engine",
        "a gradient flows on to a graph outside of the function, or hooks see it",
        "compute what is differentiated in the same function; the rest is captured anyway",
    ),
    Reason(
        "autograd-function",
        "a torch.autograd.Function does what an operator of a graph cannot: it gives a list, or has"
        " a rule for `torch.vmap` of its own inside of one",
        "return tensors or a tuple of them; let PyTorch make the rule (`generate_vmap_rule`)",
    ),
    Reason(
        "checkpoint",
        "a checkpoint that is not recomputed as part of the graph",
        "pass `use_reentrant=False`, and no other options",
    ),
    Reason(
        "function-transform",
        "a transform of `torch.func` (`grad`, `vmap`, ...) that PyTorch refuses, or whose function"
        " does what no node can say: a derivative as a function that leaves the call",
        "let the function take and give tensors alone, and call derivatives where they are made",
    ),
    Reason(
        "higher-order",
        "`torch.cond` or a loop of its kind whose functions do not fit together as graphs",
        "give tensors of one form, and draw and write outside of these functions",
    ),
    Reason(
        "leaf-made-inside",
        "a leaf that the function makes lives on, and so does what was computed from it",
        "make it before and pass it in, or ask for its gradient in the same function",
    ),
    Reason(
        "side-effect-inside",
        "a checkpoint or custom function changes Python objects, or lets a tensor out",
        "return all that it computes",
    ),
    Reason(
        "numpy",
        "an operation on NumPy arrays whose meaning PyTorch's operators do not have",
        "convert with torch.from_numpy and use tensor operators",
    ),
    # Settings of PyTorch
    Reason(
        "random-state",
        "a seed that the system chooses, that is not an integer, or that was set with a state",
        "seed with a number",
    ),
    Reason(
        "torch-context",
        "a context or a setting of PyTorch that acts on more than the operators of a graph",
        "enter it outside the compiled function",
    ),
    Reason(
        "weak-reference",
        "the program sees when an object dies: the function runs in Python from its start",
        "keep the object in a variable as long as it is asked for, or let nothing break the graph",
    ),
    Reason(
        "warning",
        "a warning whose line, outcome or listing depends on code outside of the captured function",
        "warn with `stacklevel=1`, or let filters name no module and no line",
    ),
    # Tensors
    Reason("tensor-attribute", "an attribute of a tensor that a graph does not express", _TENSOR),
    Reason(
        "tensor-attribute-write",
        "an attribute of a tensor is assigned",
        "write to the tensor in place (`x.copy_`), or assign outside the compiled function",
    ),
    Reason("tensor-method", "a method of a tensor with effects outside a graph", _OUTSIDE),
    Reason("tensor-layout", "a tensor that is not strided", "convert it with `to_dense` before"),
    Reason(
        "tensor-subclass",
        "a tensor of a class that says what operators do (`__torch_dispatch__`)",
        "pass a plain torch.Tensor",
    ),
    Reason(
        "tensor-type",
        "`isinstance` of a tensor and a class whose answer needs the tensor",
        "test the dtype or the device instead",
    ),
    Reason(
        "operator-error",
        "an operator fails on these arguments; Python runs it and raises its error",
        "make the call right: the message is PyTorch's own",
    ),
    Reason(
        "no-meta-kernel",
        "an operator whose outcome's shape depends on data, or that has no rule for it",
        "give the operator a meta function (docs/howto/meta.md), or use one whose shape is known",
    ),
    Reason(
        "generator-argument",
        "a torch.Generator for another device than the CPU",
        "seed the default generator of the device with torch.manual_seed",
    ),
    Reason("dispatch-modes", "code looks at PyTorch's active dispatch modes", _OUTSIDE),
    Reason(
        "autocast", "a torch.autocast object is entered again while it is active", "make a new one"
    ),
    # Modules
    Reason(
        "module-write",
        "a module is assigned to an attribute of a module",
        "change the model before compiling",
    ),
    Reason(
        "parameter-write",
        "a parameter of a module is replaced",
        "write to it in place: `self.weight.copy_(value)` under `torch.no_grad()`",
    ),
    Reason(
        "compiled-module",
        "a module that torch.compile made",
        "compile the original module instead",
    ),
    Reason("script-module", "a TorchScript module", "use the Python module it was made from"),
    # Values that are not known while capturing
    Reason("not-a-constant", "a value must be known while capturing and is not", _TENSOR),
    Reason(
        "not-a-graph-argument",
        "an operator is given an object that is not a tensor, number or constant",
        "pass tensors and numbers",
    ),
    Reason(
        "unknown-type",
        "the class of a value is not known",
        "make the value inside the compiled function",
    ),
    Reason("unknown-truth", "it is not known whether a value is true", "compare it explicitly"),
    Reason(
        "varying-value",
        "a number or string that changes from call to call decides something",
        "pass it as a tensor, or keep it the same",
    ),
    Reason("folded-value", "an operation on constants gave an unusual object", _OUTSIDE),
    Reason(
        "identity",
        "the address of an object: `id`, its default hash or its default text",
        "use another key, such as a name",
    ),
    Reason("hash", "a `__hash__` that has effects or depends on data", "use a plain key"),
    Reason("format", "the text of a value that is not known while capturing", "format it later"),
    # Objects and classes
    Reason("attribute", "an attribute of a value that capture does not model", _OUTSIDE),
    Reason("attribute-write", "an attribute of such a value is assigned", _OUTSIDE),
    Reason("attribute-delete", "an attribute of such a value is deleted", _OUTSIDE),
    Reason("method", "a method of a built-in value that capture does not model", _OUTSIDE),
    Reason("builtin-method", "a method that a class inherits from C code", _OUTSIDE),
    Reason("descriptor", "an attribute that C code computes", _OUTSIDE),
    Reason("instance-dict", "`__dict__` of an object that was changed", "use getattr and setattr"),
    Reason(
        "construction",
        "an object is made whose construction capture cannot follow",
        "make it outside the compiled function and pass it in",
    ),
    Reason(
        "exception-class", "an exception class with a constructor of its own", "use a plain one"
    ),
    Reason("metaclass", "a class whose metaclass changes what classes do", _OUTSIDE),
    Reason(
        "class-statement",
        "a class is made or changed inside the function in a way that capture cannot follow",
        "move it out of the function, to the top of the file",
    ),
    Reason("class-subscript", "a class is subscripted", "write the alias at the top of the file"),
    Reason("super", "`super` with one argument", "write `super().method(...)`"),
    Reason("isinstance", "`isinstance` with a class that is not known", "name the class"),
    Reason("copy", "`copy.copy` or `copy.deepcopy` of an object", "copy it outside"),
    # Containers and iteration
    Reason("iteration", "iteration over a value whose elements are not known", "use a list"),
    Reason("endless-iteration", "an iterator without an end is used up", "use itertools.islice"),
    Reason(
        "changed-while-iterated",
        "a container changes while it is iterated over",
        "iterate over a copy: `for key in list(d)`",
    ),
    Reason("cyclic-value", "a value that contains itself must be rebuilt", "break the cycle"),
    Reason("reconstruct", "a value that lives on cannot be rebuilt after the graph", _OUTSIDE),
    Reason("mutation", "a change that cannot be replayed after the graph", _OUTSIDE),
    # Functions
    Reason("c-function", "a function written in C, which has no bytecode to read", _OUTSIDE),
    Reason("builtin", "a built-in function with effects, or with arguments not known", _OUTSIDE),
    Reason("call", "a call of a value that capture does not model", _OUTSIDE),
    Reason(
        "not-inlined",
        "a function of a library that is not captured",
        "call it outside the compiled function",
    ),
    Reason("recursion", "calls, or values in themselves, nest too deep", "write a loop"),
    Reason("too-long", "the function runs too long while it is captured", "compile its parts"),
    Reason(
        "async",
        "a step of a coroutine is made that waits for what runs outside of the function",
        "let an event loop make the steps, and `await` inside of the function",
    ),
    Reason("cached-function", "a cached function is given more than constants", "call it before"),
    Reason("signature", "the signature of a function that capture does not know", _OUTSIDE),
    Reason(
        "generator",
        "a generator that is half way is dropped inside a try or with, or is running",
        "consume it, or close it, where it was started",
    ),
    Reason("logging", "a message that is logged", "raise the level, or log outside"),
    # Control flow
    Reason("instruction", "an instruction that capture does not model", _OUTSIDE),
    Reason("import", "a module is imported for the first time", "import it at the top of the file"),
    Reason("exception", "an exception leaves the function", "catch it inside, or avoid it"),
    Reason("bare-raise", "`raise` of the exception that a caller handles", "`raise error`"),
    # Breaks that the program itself asks for
    Reason("graph-break", "the program calls `graph_break`", "take the call out"),
    Reason("skip-frame", "the function calls `skip_frame`", "take the call out"),
    Reason("disabled", "a function under `disable`", "take `disable` off, or call it outside"),
    Reason("disallowed", "a function under `disallow_in_graph`", "allow it, or call it outside"),
    Reason(
        "constant-result-argument",
        "a function under `assume_constant_result` is given a value that is not known yet",
        "pass constants, or objects made outside the compiled function",
    ),
    Reason(
        "allowed-result",
        "a function under `allow_in_graph` gives something else than tensors",
        "let it return a tensor, or a tuple or list of tensors",
    ),
    Reason(
        "hidden-parameter",
        "a function under `allow_in_graph` uses a parameter that it is not given",
        "give it the parameter as an argument, so that its gradient is computed",
    ),
    # Whole functions that run in Python
    Reason("nothing-captured", "the break comes before the first operator", "remove what breaks"),
    Reason(
        "recompile-limit",
        "the guards of all entries failed too often",
        "make that value stay the same, pass it as a tensor, or raise recompile_limit",
    ),
    Reason(
        "overlapping-inputs",
        "the program writes to an input that shares memory with another input",
        "pass one of them, and make the other a view of it inside",
    ),
    Reason(
        "overlap",
        "an operator writes to memory that another of its operands is partly in",
        "clone one of the tensors",
    ),
    Reason("bytecode", "bytecode that does not have the form that compilers give it", _OUTSIDE),
    Reason("no-continuation", "a place in a function at which it cannot go on", _OUTSIDE),
    Reason(
        "unbacked-size",
        "a decision depends on a size or number that comes out of the data of a tensor",
        "state what is known of it with `torch._check`, or make the decision outside",
    ),
    Reason(
        "long-size",
        "the expression of a size that comes out of the data of a tensor grows without an end",
        "compute the size in a loop outside, or as a tensor",
    ),
    Reason(
        "late-size-guard",
        "a backend decides something about sizes after the guards were made",
        "mark the dimension as static",
    ),
    Reason("unsupported", "the backend cannot compile the graph", _OUTSIDE),
    Reason("internal-error", "a bug of minitorch2; the function runs in Python", _BUG),
)

REASONS: dict[str, Reason] = {reason.code: reason for reason in _REASONS}
"""Every reason by its code."""


def remedy_of(error: UnsupportedError) -> str:
    """Return the change that helps the user: the error's own fix, or else the table's."""
    reason = REASONS.get(error.code)
    return error.fix or ("" if reason is None else reason.remedy)


def page_of(code: str) -> str:
    """Return the command that explains a reason; empty if there is none."""
    return f"{COMMAND} {code}" if code in REASONS else ""
