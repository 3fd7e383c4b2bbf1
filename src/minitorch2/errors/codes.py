"""The codes of errors other than graph breaks: their meanings and remedies.

`python -m minitorch2 why CODE` prints them, and the codes of `bytecode.compiling.reasons` as well.
Tests compare the table with the source, both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ErrorCode:
    """A kind of error.

    Attributes:
        code: stable name; never reused for another meaning.
        meaning: what is the matter, in the user's terms.
        remedy: what usually helps.
    """

    code: str
    meaning: str
    remedy: str


_REPORT = "please report it: `minitorch2.save_call` keeps what a report needs"
_WITHOUT_KERNELS = "the backend `aot_eager` does without kernels"
_SEE_MESSAGE = "the message lists them"

_TABLE = """
aliasing-changed | a compiled graph is given inputs that share memory in another way than before | compile again for inputs of that kind
archive | a file of a scripted module is damaged, or names what the format does not admit | save it again with `minitorch2.jit.save` or `torch.jit.save`
backend | a backend is unknown, cannot work here, or failed on a graph | name another one; $aot
backend-failed | a backend raised an exception while it compiled a graph | try `eager`, then `aot_eager`: the first one that fails names the guilty layer
backend-name-taken | a backend is registered under a name that another function has | register it under another name
backend-not-available | a package that the backend needs is not installed | install it; `python -m minitorch2 doctor` says what is missing
backend-result | a backend gives no function, or one that returns something else than the graph says | return the graph's outputs in a tuple, even a single tensor
config | an option is unknown, or cannot have the value that it was given | see `minitorch2.list_options()`
cuda-error | CUDA refused to load or to launch a kernel | the message has CUDA's own error; `mode="lite"` makes smaller kernels
decomposition-cycle | decompositions lead back to the operator that they began with | decompose one of them into other operators
decomposition-twice | an operator is given two decompositions | leave out one of them
double-backward | a second derivative needs inputs that are gone, or were written to | keep the inputs as they are until it is computed
eager-numpy | a function under `wrap_numpy` runs in eager code, on tensors that NumPy cannot have | compile it, or move the tensors to the CPU and detach them
error | an error without a code of its own | see its message
export | a program cannot be exported or packaged with these arguments, sizes, values or machines | the message says why; `minitorch2.explain` shows the graph and its breaks
export-call | an exported program is called with arguments that it does not serve | pass arguments of the form in the message, or export with a `Dim` for the size
export-file | the file of an exported program or package is damaged, changed, or for another version or machine | write it again with `program.save` or `minitorch2.package`
failed-check | a check that an option asks for (`assert_no_nan`, `assert_layouts`) has failed | the message names the kernel and the buffer; `MINITORCH2_LOGS=kernel` shows the kernel's lines of the program
forbidden | captured code calls a function that `forbid_in_graph` forbids there | call it outside the compiled function
graph-failed | the backend `eager_noexcept` runs a graph that raises an exception | the message has the exception; the backend `eager` lets the program handle it
guard-filter | a filter of guards gives something else than a bool for each guard | return one bool for each record
kernel-refused | a generated kernel does not compile: a bug of minitorch2 | $aot; the message says where the kernel's text is
lowering | an operator cannot be turned into loops | $aot
marked-size | a dimension is marked with limits that its present size does not keep | mark a tensor of another size, or give other limits
missing-symbol | a kernel calls a function of the math library that is not there | see `python -m minitorch2 doctor`
mode-and-options | `compile` was given both a mode and options | add the options of the mode to yours; `minitorch2.list_mode_options` lists them
no-bundle | the bytes are no bundle of cache entries, or a damaged one | save it again with `minitorch2.save_cache_artifacts`
no-overload | an operator of a script has no overload for arguments of these types | pass arguments of the types that the nearest schema wants
no-source | the text of a function to be scripted cannot be read | define it with `def` in a file, or give its text
no-such-dimension | a dimension is marked that a tensor does not have | count dimensions from 0, or from -1 at the end
no-trace | a folder has no trace of a job, or one that a later version has written | run the job with MINITORCH2_TRACE=FOLDER, and read it with the version that wrote it
not-alone | the file of a wrapper, run alone, calls a function that only the process that compiled it had | give the function a name that an import finds
not-callable | something is disabled that cannot be called | give `disable` a function, a module or a class
not-compilable | `compile` was given a class, or a value that cannot be called | give it a function, a module or an object with `__call__`
not-compiled | a report is asked of a function that was not compiled | give what `compile` returned
not-eager | the option `compare` has found that a compiled graph is not what eager PyTorch computes | `python -m minitorch2 bisect SCRIPT`, or `minitorch2.bisect`, finds the cause
not-markable | a mark is put on something that capture would not find again | mark the function itself; a method in its class
not-symbolic | a function that is written down on proxies asks for what they do not know | compile it instead: capture can do more
option-assigned | an option is assigned to the module `minitorch2.config`, where nothing reads it | use `config.patch`, `compile(..., options={...})` or an environment variable
option-range | an option that is a number is out of its range | the message says the range
option-type | an option has a value of another type | the message says the type
ranks-differ | ranks of one job have compiled different programs, or one of them never arrives | let all ranks decide by values that all of them have
recompile | a call needs a compilation that is forbidden, or its function was replaced | let the guard hold that the message names, or compile such a call before
replay | a call holds what a folder cannot | call a function of tensors, constants, modules and plain objects that makes it itself
residual-names | residual code uses a name that nothing gives: a bug of minitorch2 | $report
script | a function cannot be scripted, for a reason without a code of its own | see the message
script-argument-type | a scripted or traced function is called with an argument of another type than its parameter has | pass a value of the type, or annotate the parameter with the type that is passed
script-branch-types | the two sides of a conditional expression in a script have different types | give both sides one type
script-class | a script makes an object of a class that has no place in a graph | use tensors, numbers, lists, dicts, tuples, NamedTuples or modules
script-constant-argument | an argument that decides what a script is has to be known while it is compiled | give a literal
script-constant-changed | a trace or a frozen module has read something of Python's objects that has changed since | pass it as an argument, or trace or freeze again
script-construct | a scripted function uses a construct of Python that is no part of TorchScript | the message says what to write instead
script-decorator | a decorator wraps a function that is scripted, and the script would leave it out | script the function without the decorator, or leave it to Python with `jit.ignore`
script-define | text that is to define functions holds something else | leave only `def` statements in it
script-ellipsis | `...` stands outside of a subscript in a script | write the dimensions
script-expression | an expression of a script has no value | write another one
script-fork | something is forked that is no function or method of the script | give a function or a method of the script
script-graph | a graph of a script breaks a rule: scoping, types or ownership | report it with the graph's text
script-immutable | a script writes to an element of a tuple or a string | make a new one, or use a list
script-import | a module that a script imports cannot be imported | correct its name, or install it
script-index-after-ellipsis | a tensor is an index after `...` in a script | write `:` for each dimension instead
script-index-type | a tensor is indexed in a script by something that is no index | use ints, slices, tensors, None and `...`
script-keyword-parameters | a scripted function is given names for its parameter `**` | pass none, or name the parameters
script-list-of-python | a script writes to a list of Python's, returns it or keeps it | pass the list as an argument, or make a new one
script-maybe-undefined | a name of a script has no value on some way, or two types | give it a value of one type on every way
script-missing-return | a scripted function gives a value, and may end without a return | return a value at the end
script-mixed-dict | keys or values of one dict of a script have different types | give them one type
script-mixed-list | elements of one list of a script have different types | give them one type, or use a tuple
script-module-hooks | a module that is to be scripted has hooks | remove them, and register them on the scripted module
script-no-attribute | something in a script has no such attribute | correct the name, or ask with `hasattr` before
script-no-element | a constant in a script has no such element | use an index or a key that it has
script-no-length | `len` of something in a script that has none | give a list, a dict, a tuple, a str or a tensor
script-not-a-function | something is scripted that is no function | give a function or a module
script-not-a-value | a module, a class or a function stands in a script where a value is needed | call it, and pass what it gives
script-not-callable | something is called in a script that cannot be called | call a function, a method or a module
script-not-iterable | a loop of a script goes over something that has no elements | use a range, a list, a dict, a tuple or a tensor
script-not-subscriptable | something in a script has no elements | index a tensor, a list, a dict, a tuple or a str
script-operator | a graph of a script has a node that nothing runs | use an operator of PyTorch, or register one
script-optional-not-refined | a script uses a value that may be None | test it before: `assert x is not None`
script-outside-loop | `break` or `continue` stands outside of a loop of a script | leave it out
script-raise | a script raises something that is no exception | write `raise ValueError("...")`
script-reassigned | a loop of a script gives a module or a function to a name again | use a list of modules
script-recursive-method | a scripted method calls itself, so its type is not known | write a loop
script-return-types | a scripted function returns values of different types | return values of one type
script-slice | something in a script is sliced with bounds that are not known | use constants, or a list
script-star | `*` or `**` in a call of a script needs a known number of elements | pass a tuple, or write each argument
script-statement | a statement is no part of the language of scripts | write another one
script-syntax | text to be scripted follows no rule of the grammar | correct it where the message points
script-target | something is assigned to or deleted in a script that cannot be | assign to a name, an attribute or an element
script-text | the text of a graph, a schema or a type is not in its grammar | correct it where the message points
script-tuple-index | a tuple of a script is indexed by what is no constant, or has no such element | use a constant index, or a list
script-tuple-length | a tuple is made in a script of what has no known number of elements | use a list
script-two-types | a name of a script has one type before a loop and another one in it | use another name for the other value
script-type-of | a script calls `type` | use `isinstance(x, T)`
script-unknown-name | a name of a script is not defined | set it before, or import it
script-unknown-type | an annotation of a script is no type of the language | use Tensor, int, float, bool, str, List, Dict, Tuple, Optional or a NamedTuple
script-unpack | a script unpacks another number of values than there are names | use as many names
script-unrolled-exit | a script leaves a loop over modules or a tuple early | put what follows into an `if`
script-unset-name | a scripted function reads a name that has no value on some way there | give it a value before the branch or the loop that assigns it
script-wrong-arguments | a call in a script does not fit the function | pass the arguments that it takes
script-wrong-type | a value of a script stands where one of another type is needed | give a value of the type that is needed
shapes-spec | `shapes_spec` names a parameter that the function does not have, or no dimensions | name parameters of the compiled function
signature-mismatch | a substitute takes other parameters than the function that it stands for | give it the same, or pass skip_signature_check=True
specialised-size | a size that is marked as dynamic was made a number | the message has the chain of lines; `maybe_mark_dynamic` allows it
stance-backend | `force_backend` is given with a stance that does not compile | leave out one of them
trace-differs | a function computes something else while a trace of it is recorded | do not ask for the type of a size, which is symbolic there, or script the function
trace-diverged | a call of a traced function would not run the operators that the trace holds | script the function, trace it for such inputs as well, or trace it with `assumptions="python"`
trace-ended | a tensor of a trace is used after the trace has ended | return it from the traced function
trace-number | a size is computed in a way that no operator of a graph computes | compute it with tensors
trace-writes | a traced function changes a list, a dict, an attribute or a global | return the new value, or script the function
traces-differ | two traces of the same inputs differ: a number of Python's varies | make the number an argument, or compute it with PyTorch's operators
triton-dtype | Triton has no such dtype | compute in another one, or on the CPU
triton-index | an index has no form in Triton: a bug of minitorch2 | $aot
triton-unavailable | tensors are on a GPU, and Triton cannot be used | pip install 'minitorch2[triton]', or move the tensors to the CPU
unknown-backend | there is no backend of this name | see `minitorch2.list_backends(())`
unknown-log | there is no log of this name, or it logs nothing | MINITORCH2_LOGS=help lists them
unknown-mode | there is no mode of this name | see `minitorch2.list_mode_options()`
unknown-operator | a script names an operator that PyTorch does not have | correct the name
unknown-option | there is no option of this name | see `minitorch2.list_options()`
unknown-pass | there is no pass over graphs of this name | $message
unknown-place | there is no place among the passes of this name | $message
unknown-stance | there is no stance of this name | $message
unsupported-python | this Python is not one whose frames can be read | use CPython 3.11, 3.12 or 3.13
untraceable | a traced function does what no graph can hold | the message says what to do instead
verification | a graph, a loop nest or a schedule breaks a rule of its own grammar: a bug of minitorch2 | $report
wrapper | the program around the kernels of a graph reads, frees or makes memory wrongly: a bug of minitorch2 | $report
wrong-device | a kernel for the CPU is to compute on another device | name the backend `triton`, or none, for tensors on a GPU
"""  # noqa: E501 (one line each)


def _read(line: str) -> ErrorCode:
    words = {"$aot": _WITHOUT_KERNELS, "$message": _SEE_MESSAGE, "$report": _REPORT}
    for word, meaning in words.items():
        line = line.replace(word, meaning)
    return ErrorCode(*line.split(" | "))


ERROR_CODES: Final[dict[str, ErrorCode]] = {
    found.code: found for found in map(_read, _TABLE.strip().splitlines())
}
"""Every kind by its code."""
