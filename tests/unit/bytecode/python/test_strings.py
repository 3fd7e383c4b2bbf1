"""Strings and bytes: methods, formatting, interning, `re`, `string`, `textwrap`, `json`."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import json
import os
import os.path
import re
import string
import textwrap
from typing import Any

import pytest
import torch

from tests.unit.bytecode.python.programs import Case, X, case, expressions

TABLE: list[Any] = []
PATTERN = re.compile(r"layer\.(\d+)\.(\w+)")

expressions(
    TABLE,
    """
    s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), s.casefold()
    s.split(), s.split("o"), s.rsplit("o", 1), s.splitlines(), s.partition(" "), s.rpartition("o")
    s.strip("h"), s.lstrip(), s.rstrip("d"), s.removeprefix("hello "), s.removesuffix("world")
    s.find("o"), s.rfind("o"), s.index("w"), s.count("l"), s.startswith(("x", "he")), s.endswith("ld")
    s.replace("l", "L"), s.replace("l", "L", 1), s.center(20, "*"), s.ljust(15), s.rjust(15), s.zfill(15)
    "-".join(["a", "b"]), ", ".join(map(str, [1, 2])), "".join(c for c in s if c != "o"), " ".join({"k": 1})
    s.isalpha(), s.isdigit(), "12".isnumeric(), s.isspace(), s.islower(), "a1".isalnum(), "id".isidentifier()
    s[0], s[-1], s[2:5], s[::-1], s[::2], s + "!", s * 2, 2 * "ab", "ell" in s, "z" not in s, len(s)
    s.encode(), "é".encode("latin-1"), b.decode(), b.hex(), bytes.fromhex("6162"), b[0], b[1:3], b + b"!", list(b)
    b.split(b"t"), b.replace(b"b", b"B"), b.startswith(b"by"), b"-".join([b"a", b"b"]), bytes(3), bytes([65, 66])
    f"{s}", f"{s!r}", f"{s!s:>15}", f"{s:.3}", f"{s:^15}|", f"{'a'}{'b'}", f"{s=}"
    f"{n}", f"{n:5d}", f"{n:05}", f"{n:+}", f"{n:x}", f"{n:#b}", f"{n:,}", f"{n!r}", f"{n:e}", f"{n / 3:.2f}"
    f"{n:{n}}", f"{n / 3:{'>'}{10}.{2}f}", f"{True}", f"{None}", f"{[1, 'a']}", f"{(1,)}", f"{dict(a=1)}", f"{1 == 2}"
    "%d %s %.2f %r %%" % (n, s, 1.5, "q"), "%(a)s" % {"a": 1}, "%s" % s, "%5.1f|%-5d|" % (2.25, n)
    "{} {} {}".format(n, s, 1.5), "{0} {1} {0}".format("a", "b"), "{a}-{b:>4}".format(a=1, b=2)
    "{0[0]} {1.real}".format([5], 3), "{!r}".format("x"), "{:{w}}".format("a", w=5), "{a}".format_map({"a": 1})
    format(n, "04d"), format(1.5, ".3f"), format("a", ">3"), format(n), repr(s), str(1.0), str([1, "a"]), ascii("é")
    str(b), str(None), str((1, 2)), str({"a": 1}), repr({1}), str(1 + 2j), str(int), repr(...), str(b, "ascii")
    s.translate(str.maketrans("lo", "01")), str.maketrans({"a": "b"}), s.expandtabs(), str.upper("a"), str.join("-", "ab")
    s == "hello world", s < "i", s is s, "a" "b", s.__len__(), s.__contains__("h"), s.__add__("x"), "a".__eq__(1)
    sorted(s)[:3], list(s)[:2], tuple("ab"), set("aab") == {"a", "b"}, dict(zip("ab", [1, 2])), [*"ab"], max(s), min(s)
    s.encode("utf-8").decode("utf-8").join(["a"]), [w.title() for w in s.split()], {c: s.count(c) for c in "lo"}
    [c for c in reversed(s)][:2], list(enumerate("ab")), any(c == "w" for c in s), "".join(sorted(set("hello")))
    string.ascii_letters, string.digits, string.punctuation, string.capwords(s)
    re.match(r"(\\w+) (\\w+)", s).groups(), re.sub("o", "0", s), re.split(r"\\s", s), re.findall("[aeiou]", s)
    bool(re.search("wor", s)), re.search("wor", s) is None, re.fullmatch("x", s), re.escape("a.b")
    PATTERN.match("layer.3.weight").group(1), PATTERN.sub("", "layer.3.weight"), [m.group() for m in PATTERN.finditer("layer.1.a layer.2.b")]
    json.dumps({"a": [1, 2]}), json.loads('{"a": [1, null]}')
    os.path.join("a", "b"), os.path.basename("/x/y.py"), os.path.splitext("a.txt"), os.path.dirname("/x/y")
    textwrap.dedent("  a"), textwrap.indent("a", "  ")
    f"{x.shape}", f"{x.dtype}", f"{x.shape[0]}", f"{x.ndim:2}", str(x.dtype), str(x.device), f"{x.size()}", repr(x.shape)
    f"{x}"  # breaks=1
    str(x)  # breaks=1
    "%s" % x  # breaks=1
    "{}".format(x)  # breaks=1
    """,
    {"re": re, "string": string, "PATTERN": PATTERN, "json": json, "os": os, "textwrap": textwrap},
    s="hello world",
    b=b"bytes",
    n=42,
)


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Named({self.name!r})"

    def __format__(self, spec: str) -> str:
        return f"<{self.name}:{spec}>"


class Shown:
    def __str__(self) -> str:
        return "shown"


@case(TABLE, lambda: (X, Named("a")))
def text_of_objects(x: torch.Tensor, named: Named) -> Any:
    return (
        x + 1,
        f"{named} {named!r} {named!s} {named:abc}",
        str(named),
        repr(named),
        [f"{n}" for n in (1, named)],
    )


@case(TABLE)
def text_of_new_objects(x: torch.Tensor) -> Any:
    return x + 1, f"{Shown()}", str(Shown()), f"{[Named('b')]}", f"{Shown()!s:>9}"


@case(TABLE, X, "relu")
def string_chooses_a_branch(x: torch.Tensor, name: str) -> Any:
    match name:
        case "relu":
            return x.relu()
        case "gelu":
            return x * 2
    return x


@case(TABLE, X, {"layer.0.weight": 1, "layer.1.bias": 2})
def names_of_parameters(x: torch.Tensor, state: dict[str, int]) -> Any:
    renamed = {k.replace("layer.", "blocks."): v for k, v in state.items() if k.endswith("weight")}
    depth = max(int(k.split(".")[1]) for k in state)
    return x + depth, renamed, depth


@case(TABLE)
def errors_of_strings(x: torch.Tensor) -> Any:
    found = []
    for operation in (
        lambda: "abc".index("z"),
        lambda: "a".join([1]),
        lambda: "abc"[10],
        lambda: "%d" % "a",
        lambda: "{}".format(),
        lambda: b"\xff".decode(),
        lambda: "a" + b"b",
        lambda: f"{'a':d}",
        lambda: "{a}".format(),
        lambda: "a".center("b"),
    ):
        try:
            operation()
        except Exception as error:
            found.append((type(error), error.args))
    return x + 1, found


@case(TABLE)
def interned_strings(x: torch.Tensor) -> Any:
    a = "weight"
    b = "wei" + "ght"
    return x + 1, a is b, a == b, a is not None


@pytest.mark.parametrize("program", TABLE)
def test_strings(program: Case) -> None:
    program.run()
