"""Private names of Python's standard library."""

import _abc  # type: ignore[import-not-found]
import _string  # type: ignore[import-not-found]
import copyreg
import dataclasses
import functools
import opcode
import typing

CachedFunction = functools._lru_cache_wrapper
slot_names = copyreg._slotnames  # type: ignore[attr-defined]
make_dataclass_of = dataclasses._process_class  # type: ignore[attr-defined]
caller_module = typing._caller  # type: ignore[attr-defined]
init_abstract_class = _abc._abc_init
STRING_FORMATS = _string
parse_format = _string.formatter_parser
split_field_name = _string.formatter_field_name_split
CACHE_ENTRIES = opcode._inline_cache_entries  # type: ignore[attr-defined]
NUMBERED_OPERATORS = opcode._nb_ops  # type: ignore[attr-defined]
