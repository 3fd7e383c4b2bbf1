"""Canonical instructions: one bytecode language for every supported CPython version.

A function body is a list of `Instruction`. Each opcode has one meaning on all versions; the tables
in `versions/` translate to and from the real opcodes. The stack grows to the right; `argval` comes
after the opcode::

    constants   LOAD_CONST value            |  PUSH_NULL            |  NOP
    locals      LOAD_FAST name              raises UnboundLocalError if the name is not bound
             |  STORE_FAST name  |  DELETE_FAST name
             |  LOAD_FAST_AND_CLEAR name    pushes the value (NULL if unbound) and unbinds the name;
                                            a later STORE_FAST of NULL unbinds it again (3.12+:
                                            inlined comprehensions; the name may be one with a cell,
                                            whose slot is then lent to a plain variable)
    cells       MAKE_CELL name  |  COPY_FREE_VARS count
             |  LOAD_DEREF name  |  STORE_DEREF name  |  DELETE_DEREF name
             |  LOAD_CLOSURE name           pushes the cell itself
             |  LOAD_CLASSDEREF name  |  LOAD_FROM_DICT_OR_DEREF name       (class bodies)
    globals     LOAD_GLOBAL name  |  STORE_GLOBAL name  |  DELETE_GLOBAL name
             |  LOAD_NAME name  |  STORE_NAME name  |  DELETE_NAME name
    attributes  LOAD_ATTR name  |  STORE_ATTR name  |  DELETE_ATTR name
             |  LOAD_METHOD name            object -> method self | NULL value | value NULL
             |  LOAD_SUPER_ATTR (name, explicit)     super class self -> attribute    (3.12+)
             |  LOAD_SUPER_METHOD (name, explicit)   same result as LOAD_METHOD; explicit is False
                                            for a zero-argument super()
    calls       CALL (count, names)         below the count arguments lie two slots; at most one is
                                            NULL: if one is, the other is the callable; if none is,
                                            the lower is the callable, the upper its first argument.
                                            names: tuple of the trailing keyword arguments
             |  CALL_FUNCTION_EX flags      the callable and NULL (either order), an iterable, and
                                            if flags & 1 a mapping
    (NULL lies below the callable before 3.13 and above it from then on; the assembler does not
    reorder, so instructions made by us must push it where the version wants it.)
    operators   BINARY_OP symbol            "+" ... and in place "+=" ...
             |  COMPARE_OP symbol           "<" "<=" "==" "!=" ">" ">=", never converted to bool
             |  UNARY_POSITIVE  |  UNARY_NEGATIVE  |  UNARY_NOT  |  UNARY_INVERT
             |  IS_OP invert  |  CONTAINS_OP invert           invert: bool ("is not", "not in")
             |  BINARY_SUBSCR  |  STORE_SUBSCR  |  DELETE_SUBSCR
             |  BINARY_SLICE  |  STORE_SLICE                  (3.12+)
    jumps       JUMP target  |  JUMP_NO_INTERRUPT target      (the latter in await and yield from)
             |  POP_JUMP_IF_TRUE target  |  POP_JUMP_IF_FALSE target     truth by bool(), any object
             |  POP_JUMP_IF_NONE target  |  POP_JUMP_IF_NOT_NONE target
             |  JUMP_IF_TRUE_OR_POP target  |  JUMP_IF_FALSE_OR_POP target      (3.11)
             |  FOR_ITER target             iterator -> iterator item; when exhausted, pops the
                                            iterator and jumps (there is no END_FOR)
             |  SEND target                 (generators)
    build       BUILD_TUPLE n  |  BUILD_LIST n  |  BUILD_SET n  |  BUILD_MAP n  |  BUILD_STRING n
             |  BUILD_SLICE n  |  BUILD_CONST_KEY_MAP n
             |  LIST_APPEND i  |  SET_ADD i  |  MAP_ADD i  |  LIST_EXTEND i  |  SET_UPDATE i
             |  DICT_UPDATE i  |  DICT_MERGE i  |  LIST_TO_TUPLE
             |  UNPACK_SEQUENCE n  |  UNPACK_EX (before, after)
             |  FORMAT_VALUE (conversion, has_spec)   conversion: None "s" "r" "a"; has_spec: bool
             |  CONVERT_VALUE conversion              conversion: "s" "r" "a"            (3.13)
             |  MAKE_FUNCTION parts         frozenset of "defaults" "kwdefaults" "annotations"
                                            "closure"; the stack holds them in that order, then the
                                            code object
    stack       COPY i  |  SWAP i  |  POP_TOP
    exceptions  RAISE_VARARGS n  |  RERAISE n  |  PUSH_EXC_INFO  |  POP_EXCEPT  |  CHECK_EXC_MATCH
             |  BEFORE_WITH  |  WITH_EXCEPT_START  |  LOAD_ASSERTION_ERROR
    other       GET_ITER  |  RETURN_VALUE  |  RESUME kind  |  IMPORT_NAME name  |  IMPORT_FROM name
             |  IMPORT_STAR  |  CALL_INTRINSIC_1 name  |  CALL_INTRINSIC_2 name  |  LOAD_BUILD_CLASS
             |  any other opcode under CPython's own name, `argval` being its raw argument

Canonical code never contains CACHE, EXTENDED_ARG, PRECALL, KW_NAMES, superinstructions,
RETURN_CONST, TO_BOOL, END_FOR, CALL_KW, SET_FUNCTION_ATTRIBUTE, LOAD_FAST_CHECK and directions of
jumps.

Exceptions: an instruction's `handler` says where control goes if it raises. The handler cuts the
stack to `depth` items, pushes the position of the raise if `lasti`, then the exception, and jumps
to `target` (CPython's exception table, Objects/exception_handling_notes.txt).
"""

from __future__ import annotations

from dataclasses import dataclass
from dis import Positions
from typing import Any

NOWHERE = Positions(None, None, None, None)

ENDS_FLOW = frozenset({"JUMP", "JUMP_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
"""Opcodes after which control never reaches the next instruction of the list."""


@dataclass(eq=False, slots=True)
class Instruction:
    """One canonical instruction; see the grammar in the module's docstring.

    Compared by identity, and not frozen: a jump refers to its target, which may come later.

    Attributes:
        opname: canonical opcode.
        argval: decoded operand; its type depends on the opcode.
        target: the target of a jump.
        handler: the handler of an exception raised here; None leaves the function.
        positions: the user's source position (lines from 1, columns in bytes from 0); any part may
            be None.
        offset: byte offset in the code object it was read from; -1 if it was made by us.
    """

    opname: str
    argval: Any = None
    target: Instruction | None = None
    handler: ExceptionHandler | None = None
    positions: Positions = NOWHERE
    offset: int = -1

    @property
    def line(self) -> int | None:
        """The user's line, or None for instructions that belong to no line."""
        return self.positions.lineno

    @property
    def falls_through(self) -> bool:
        """True if control can reach the next instruction of the list."""
        return self.opname not in ENDS_FLOW

    def __repr__(self) -> str:
        operand = "" if self.argval is None else f" {self.argval!r}"
        arrow = "" if self.target is None else f" -> {self.target.offset}"
        return f"<{self.offset} {self.opname}{operand}{arrow}>"


@dataclass(frozen=True, slots=True)
class ExceptionHandler:
    """The handler to which control goes when an instruction raises.

    Attributes:
        target: first instruction of the handler.
        depth: number of stack items that are kept.
        lasti: whether the position of the raising instruction is pushed below the exception.
    """

    target: Instruction
    depth: int
    lasti: bool
