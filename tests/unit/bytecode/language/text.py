"""Strings, formats, regular expressions."""

import re
import string
import textwrap

import torch

from tests.unit.bytecode.language import program


@program
def shape_as_text(x):
    return (
        x + 1,
        str(x.shape),
        repr(x.shape),
        f"{x.shape}",
        f"{x.shape!r}",
        "%s" % (x.shape,),
        "{}".format(x.size()),
    )


@program
def shape_parts_as_text(x):
    return (
        x + 1,
        f"{x.shape[0]}x{x.shape[1]:>4}",
        str(x.shape[0]),
        "%d" % x.size(0),
        f"{x.shape[0]:03d}",
        f"{x.numel()}",
    )


@program
def shape_in_containers_as_text(x):
    return (
        x + 1,
        str([x.shape]),
        repr((x.shape, 1)),
        f"{ {'s': x.shape} }",
        str(tuple(x.shape)),
        str(list(x.shape)),
    )


@program
def slice_of_shape_as_text(x):
    return (
        x + 1,
        str(x.shape[:1]),
        str(x.shape + (1,)),
        repr(x.shape[1:]),
        f"{torch.Size([x.shape[0], 1])}",
    )


@program
def dtype_and_device_as_text(x):
    return (
        x + 1,
        str(x.dtype),
        f"{x.dtype}",
        str(x.device),
        repr(x.device),
        f"{x.device.type}",
        str(x.layout),
    )


@program
def module_as_text(x):
    return str(torch.nn.Linear(2, 3)), repr(torch.nn.ReLU()), x + 1


@program
def numbers_with_formats(x):
    return (
        x + 1,
        f"{3.14159:.2f} {10:5d} {255:#x} {1e6:g} {0.5:%} {12345:,} {-3:+d} {7!r:>3}",
        "%5.1f|%-4s|%%" % (2, "a"),
    )


@program
def objects_as_text(x):
    class A:
        def __str__(self):
            return "str"

        def __repr__(self):
            return "repr"

        def __format__(self, spec):
            return spec or "none"

    a = A()
    return (
        x + 1,
        str(a),
        repr(a),
        f"{a} {a!s} {a!r} {a:w}",
        "%s %r" % (a, a),
        "{} {!r}".format(a, a),
        str([a]),
    )


@program
def string_methods(x):
    s = "Hello, World"
    return x + len(s), [
        s.lower(), s.upper(), s.split(", "), s.replace("l", "L"), s.find("W"), s.startswith("He"), s[::-1],
        s.partition(","), s.center(20, "*"), s.zfill(15), s.title(), s.swapcase(), s.count("o"), s.index("o"),
        ",".join(["a", "b"]), " a ".strip(), "a\tb".expandtabs(4), s.encode(), s.isalpha(), s.casefold(),
        "a-b".translate(str.maketrans("-", "_")), s.removeprefix("Hello"), "x".rjust(3), "1,2".rsplit(",", 1),
        "a\nb".splitlines(), "abc"[1], "abc" < "abd", "b" in "abc", "ab" * 2, ord("a"), chr(98), s.format_map({}),
    ]  # fmt: skip


@program
def format_by_name(x):
    return (
        x + 1,
        "{a} {b[0]} {c.real}".format(a=1, b=[2], c=3),
        "{:>{w}}".format("a", w=4),
        "{0}{0}".format("z"),
    )


@program
def percent_formats(x):
    return (
        x + 1,
        "%(a)s-%(b)03d" % {"a": 1, "b": 2},
        "%s" % [1],
        "%c" % 65,
        "%x" % 255,
        "%r" % "q",
        "%e" % 1.5,
    )


@program
def templates(x):
    return x + 1, string.Template("$a and ${b}").substitute(a=1, b="c"), string.ascii_lowercase[:3]


@program
def formatter(x):
    return x + 1, string.Formatter().format("{0} {k}", 1, k=2), string.capwords("a b")


@program
def regular_expressions(x):
    m = re.match(r"(\w+)-(?P<n>\d+)", "abc-42")
    return (
        x + int(m.group("n")),
        re.sub("a", "b", "aab"),
        re.findall(r"\d", "1a2"),
        re.split(",", "a,b"),
        m.group(1),
    )


PATTERN = re.compile(r"layer(\d+)")


@program
def compiled_pattern(x):
    m = PATTERN.search("my layer12")
    return x * int(m[1]), m.span(), PATTERN.sub("L", "layer1 layer2"), bool(PATTERN.match("no"))


@program
def pattern_with_function(x):
    return x + 1, re.sub(r"\d", lambda m: str(int(m.group()) + 1), "a1b2")


@program
def pattern_iterated(x):
    return x + sum(int(m.group()) for m in re.finditer(r"\d+", "1 22 3"))


@program
def lone_surrogates(x):
    s = "\ud800"
    table = {s: x}
    return table["\ud800"] + 1, len(s), s


@program
def attribute_with_surrogate(x):
    class A:
        pass

    a = A()
    setattr(a, "\udc80k", x)
    return getattr(a, "\udc80k") + 1


@program
def nested_fstring(x):
    width = 5
    return x + 1, f"{'a' + 'b':>{width}} {f'{1 + 1}'} {width=} {{}}"


@program
def wrapped_text(x):
    return x + 1, textwrap.dedent("  a\n  b"), textwrap.fill("a b c", 3), textwrap.indent("a", "> ")


@program
def text_of_containers(x):
    return (
        x + 1,
        str({"a": (1, None)}),
        repr([1.0, "s", b"b", True]),
        str({1}),
        repr(frozenset()),
        str(range(3)),
        repr(slice(1)),
    )


@program
def text_of_classes(x):
    return (
        x + 1,
        repr(int),
        str(torch.float32),
        f"{dict}",
        repr(type(None)),
        str(Ellipsis),
        repr(NotImplemented),
    )


@program
def text_of_exceptions(x):
    return (
        x + 1,
        str(ValueError("a", 1)),
        repr(KeyError("k")),
        str(KeyError("k")),
        repr(OSError(2, "no")),
    )


@program
def text_depends_on_size(x):
    return x + len(f"{x.shape}"), {f"{x.shape[0]}": 1}


@program
def ascii_and_unicode(x):
    return (
        x + 1,
        ascii("é"),
        "\N{BULLET}",
        "é".encode("latin-1"),
        "ß".upper(),
        "İ".lower(),
        "straße".casefold(),
    )


@program
def printable_number(x):
    return (
        x + 1,
        hex(10),
        oct(8),
        bin(5),
        (255).to_bytes(2, "big"),
        int("ff", 16),
        float("1e3"),
        (1.5).hex(),
        repr(1e100),
    )
