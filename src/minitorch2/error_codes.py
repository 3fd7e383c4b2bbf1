"""The codes of errors other than graph breaks: their meanings and remedies.

`python -m minitorch2 why CODE` prints them, and the codes of `bytecode.reasons` as well. Tests
compare the table with the source, both ways.
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
no-source | the text of a function to be scripted cannot be read | define it with `def` in a file, or give its text
no-such-dimension | a dimension is marked that a tensor does not have | count dimensions from 0, or from -1 at the end
not-alone | the file of a wrapper, run alone, calls a function that only the process that compiled it had | give the function a name that an import finds
not-callable | something is disabled that cannot be called | give `disable` a function, a module or a class
not-compilable | `compile` was given a class, or a value that cannot be called | give it a function, a module or an object with `__call__`
not-compiled | a report is asked of a function that was not compiled | give what `compile` returned
not-markable | a mark is put on something that capture would not find again | mark the function itself; a method in its class
not-symbolic | a function that is written down on proxies asks for what they do not know | compile it instead: capture can do more
option-assigned | an option is assigned to the module `minitorch2.config`, where nothing reads it | use `config.patch`, `compile(..., options={...})` or an environment variable
option-range | an option that is a number is out of its range | the message says the range
option-type | an option has a value of another type | the message says the type
recompile | a call needs a compilation that is forbidden, or its function was replaced | let the guard hold that the message names, or compile such a call before
replay | a call holds what a folder cannot | call a function of tensors, constants, modules and plain objects that makes it itself
residual-names | residual code uses a name that nothing gives: a bug of minitorch2 | $report
script | a function cannot be scripted, for a reason without a code of its own | see the message
script-construct | a scripted function uses a construct of Python that is no part of TorchScript | the message says what to write instead
script-syntax | text to be scripted follows no rule of the grammar | correct it where the message points
script-unset-name | a scripted function reads a name that has no value on some way there | give it a value before the branch or the loop that assigns it
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
