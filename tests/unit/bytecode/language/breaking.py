"""Programs of the catalogue that break the graph, with the code of the reason."""

BREAKING: dict[str, str] = {
    "containers-bytes_and_arrays": "construction",
    "containers-memory_of_bytearray": "construction",
    "control-branch_on_data": "data-dependent-branch",
    "control-exception_group_of_one": "instruction",
    "control-exception_group_rest": "exception-class",
    "control-exception_groups": "exception-class",
    "control-too_deep_recursion": "recursion",
    "library-clock": "c-function",
    "library-context_copied": "c-function",
    "library-lock": "builtin-method",
    "library-printed": "builtin",
    "library-redirected": "construction",
}
