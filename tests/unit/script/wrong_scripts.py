"""Programs that are wrong, with the whole text of their errors."""

WRONG_BODIES = {
    "y: Optional[int] = None\n    return y.bit_length": (
        "program.py:3, in f\n"
        "    return y.bit_length\n"
        "           ~~~~~~~~~~~~\n"
        "y may be None (its type is int?), and None has no attribute bit_length "
        "[script-optional-not-refined]\n"
        "Fix: test it before: `assert y is not None`, or `if y is not None:`"
    ),
    "y = 1\n    for i in range(3):\n        y = x\n    return y": (
        "program.py:4, in f\n"
        "    y = x\n"
        "    ~\n"
        "y has the type int before the loop (line 2), and Tensor after an iteration "
        "[script-two-types]\n"
        "Fix: use another name for the value of type Tensor"
    ),
    "for m in (1, 2):\n        break": (
        "program.py:3, in f\n"
        "    break\n"
        "    ~~~~~\n"
        "a loop over modules or a tuple is unrolled, and cannot be left early "
        "[script-unrolled-exit]\n"
        "Fix: put what follows into an `if`"
    ),
    "return 1 if x.sum() > 0 else 'a'": (
        "program.py:2, in f\n"
        "    return 1 if x.sum() > 0 else 'a'\n"
        "           ~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "the two branches have different types: int and str "
        "[script-branch-types]\n"
        "Fix: give both branches one type"
    ),
    "if x.sum() > 0:\n        y = 1\n    return y": (
        "program.py:4, in f\n"
        "    return y\n"
        "           ~\n"
        "y has no value here: y is set in one branch of an if only "
        "[script-maybe-undefined]\n"
        "Fix: give y a value of one type on every way to here"
    ),
    "if x.sum() > 0:\n        return 1\n    return 'a'": (
        "program.py:4, in f\n"
        "    return 'a'\n"
        "    ~~~~~~~~~~\n"
        "f returns values of different types: int and str "
        "[script-return-types]\n"
        "Fix: return values of one type"
    ),
    "return x[..., x > 0]": (
        "program.py:2, in f\n"
        "    return x[..., x > 0]\n"
        "           ~~~~~~~~~~~~~\n"
        "a tensor as an index after `...` is no part of the language "
        "[script-index-after-ellipsis]\n"
        "Fix: write `:` for each dimension instead of `...`"
    ),
    "return x['a']": (
        "program.py:2, in f\n"
        "    return x['a']\n"
        "           ~~~~~~\n"
        "a tensor cannot be indexed by a value of type str [script-index-type]\n"
        "Fix: use ints, slices, tensors, None and `...`"
    ),
    "continue": (
        "program.py:2, in f\n"
        "    continue\n"
        "    ~~~~~~~~\n"
        "`continue` stands outside of a loop [script-outside-loop]\n"
        "Fix: leave it out"
    ),
    "(1, 'a')[x.dim()]": (
        "program.py:2, in f\n"
        "    (1, 'a')[x.dim()]\n"
        "    ~~~~~~~~~~~~~~~~~\n"
        "a value of type (int, str) needs a constant index "
        "[script-tuple-index]\n"
        "Fix: use a constant index, or a list instead of the tuple"
    ),
    "return {'a': 1, 'b': 'c'}": (
        "program.py:2, in f\n"
        "    return {'a': 1, 'b': 'c'}\n"
        "           ~~~~~~~~~~~~~~~~~~\n"
        "values of one dict have different types "
        "[script-mixed-dict]\n"
        "Fix: give them one type"
    ),
    "t = (1, 2)\n    t[0] = 3": (
        "program.py:3, in f\n"
        "    t[0] = 3\n"
        "    ~~~~\n"
        "a value of type (int, int) cannot be written to "
        "[script-immutable]\n"
        "Fix: make a new one, or use a list"
    ),
    "return torch.relu": (
        "program.py:2, in f\n"
        "    return torch.relu\n"
        "           ~~~~~~~~~~\n"
        "the operator aten::relu cannot be used as a value [script-not-a-value]\n"
        "Fix: call it, and pass what it gives"
    ),
    "return range(x)(3)": (
        "program.py:2, in f\n"
        "    return range(x)(3)\n"
        "           ~~~~~~~~~~~\n"
        "a range cannot be called [script-not-callable]\n"
        "Fix: call a function, a method or a module"
    ),
    "torch.nothing(x)": (
        "program.py:2, in f\n"
        "    torch.nothing(x)\n"
        "    ~~~~~~~~~~~~~\n"
        "torch has no attribute nothing [script-no-attribute]\n"
        "Fix: correct the name, or ask with `hasattr` before"
    ),
    "return int('a')": (
        "program.py:2, in f\n"
        "    return int('a')\n"
        "           ~~~~~~~~\n"
        "invalid literal for int() with base 10: 'a' [script-wrong-arguments]\n"
        "Fix: pass the arguments that it takes"
    ),
    "return x(1)": (
        "program.py:2, in f\n"
        "    return x(1)\n"
        "           ~~~~\n"
        "a value of type Tensor cannot be called [script-not-callable]\n"
        "Fix: call a function, a method or a module"
    ),
    "len = 3\n    del len\n    return len": (
        "program.py:4, in f\n"
        "    return len\n"
        "           ~~~\n"
        "len has no value here: len was deleted "
        "[script-maybe-undefined]\n"
        "Fix: give len a value of one type on every way to here"
    ),
    "y: Optional[Tensor] = None\n    return y[0]": (
        "program.py:3, in f\n"
        "    return y[0]\n"
        "           ~~~~\n"
        "y may be None (its type is Tensor?), and None has no elements "
        "[script-optional-not-refined]\n"
        "Fix: test it before: `assert y is not None`, or `if y is not None:`"
    ),
    "return lambda y: y": (
        "program.py:2\n"
        "    return lambda y: y\n"
        "           ~~~~~~~~~~~\n"
        "`lambda` is no part of the language [script-construct]\n"
        "Fix: define a function at the top of the file"
    ),
    "try:\n        return x\n    except ValueError:\n        return x": (
        "program.py:2\n"
        "    try:\n"
        "    ~~~~\n"
        "        return x\n"
        "        ~~~~~~~~\n"
        "    except ValueError:\n"
        "    ~~~~~~~~~~~~~~~~~~\n"
        "`try` is no part of the language [script-construct]\n"
        "Fix: test for the case before, with `if`"
    ),
    "import math\n    return x": (
        "program.py:2\n"
        "    import math\n"
        "    ~~~~~~~~~~~\n"
        "`import` within a program is no part of the language [script-construct]\n"
        "Fix: import at the top of the file"
    ),
    "yield x": (
        "program.py:2\n"
        "    yield x\n"
        "    ~~~~~~~\n"
        "`yield` is no part of the language [script-construct]\n"
        "Fix: append to a list and return it"
    ),
    "global y\n    return x": (
        "program.py:2\n"
        "    global y\n"
        "    ~~~~~~~~\n"
        "`global` is no part of the language [script-construct]\n"
        "Fix: give the value as an argument, and return what changes"
    ),
    "nonlocal x": (
        "program.py:2\n"
        "    nonlocal x\n"
        "    ~~~~~~~~~~\n"
        "`nonlocal` is no part of the language [script-construct]\n"
        "Fix: give the value as an argument, and return what changes"
    ),
    "return {k: v for k in x}": (
        "program.py:2, in f\n"
        "    return {k: v for k in x}\n"
        "               ~\n"
        "v is not defined [script-unknown-name]\n"
        "Fix: set v before, or import it"
    ),
    "class A:\n        pass\n    return x": (
        "program.py:2\n"
        "    class A:\n"
        "    ~~~~~~~~\n"
        "        pass\n"
        "        ~~~~\n"
        "a class within a function is no part of the language [script-construct]\n"
        "Fix: define it at the top of the file"
    ),
    "def g():\n        return 1\n    return g()": (
        "program.py:2\n"
        "    def g():\n"
        "    ~~~~~~~~\n"
        "        return 1\n"
        "        ~~~~~~~~\n"
        "a function within a function is no part of the language [script-construct]\n"
        "Fix: define it at the top of the file"
    ),
    "y: int = 'a'\n    return y": (
        "program.py:2, in f\n"
        "    y: int = 'a'\n"
        "             ~~~\n"
        "a value of type str stands where int is needed [script-wrong-type]\n"
        "Fix: give a value of type int"
    ),
    "return f'{x!r}'": (
        "program.py:2\n"
        "    return f'{x!r}'\n"
        "           ~~~~~~~~\n"
        "a conversion or a format within an f-string is no part of the language "
        "[script-construct]\n"
        "Fix: call `str.format`"
    ),
    "return {1, 2}": (
        "program.py:2\n"
        "    return {1, 2}\n"
        "           ~~~~~~\n"
        "a set is no part of the language [script-construct]\n"
        "Fix: use a dict whose values are True"
    ),
    "return max()": (
        "program.py:2, in f\n"
        "    return max()\n"
        "           ~~~~~\n"
        "max takes 1 argument here, and got 0 [script-wrong-arguments]\n"
        "Fix: pass the arguments that it takes"
    ),
    "return 1 < 'a'": (
        "program.py:2, in f\n"
        "    return 1 < 'a'\n"
        "           ~~~~~~~\n"
        "aten::lt cannot be called with (int, str); the nearest schema is "
        "aten::lt.int(int a, int b) -> bool\n"
        "  a: fits\n"
        "  b: wants int, is given str [no-overload]\n"
        "Fix: pass arguments of the types that the nearest schema wants"
    ),
    "return isinstance(x, 3)": (
        "program.py:2, in f\n"
        "    return isinstance(x, 3)\n"
        "           ~~~~~~~~~~~~~~~~\n"
        "the constant 3 is no class that isinstance could ask for [script-wrong-type]\n"
        "Fix: give a class"
    ),
    "return enumerate()": (
        "program.py:2, in f\n"
        "    return enumerate()\n"
        "           ~~~~~~~~~~~\n"
        "enumerate(iterable, start=0) is called wrongly: missing a required argument: "
        "'iterable' [script-wrong-arguments]\n"
        "Fix: pass the arguments that it takes"
    ),
    "return getattr(x)": (
        "program.py:2, in f\n"
        "    return getattr(x)\n"
        "           ~~~~~~~~~~\n"
        "getattr takes 2 arguments here, and got 1 [script-wrong-arguments]\n"
        "Fix: pass the arguments that it takes"
    ),
    "with x:\n        return x": (
        "program.py:2, in f\n"
        "    with x:\n"
        "         ~\n"
        "a value of type Tensor is no context manager [script-wrong-type]\n"
        "Fix: give `torch.no_grad()`, or an object with `__enter__`"
    ),
    "match x:\n        case 1:\n            return x\n    return x": (
        "program.py:2\n"
        "    match x:\n"
        "    ~~~~~~~~\n"
        "        case 1:\n"
        "        ~~~~~~~\n"
        "            return x\n"
        "            ~~~~~~~~\n"
        "`match` is no part of the language [script-construct]\n"
        "Fix: write `if` and `elif`"
    ),
    "for i in range(3):\n        pass\n    else:\n        return x\n    return x": (
        "program.py:2\n"
        "    for i in range(3):\n"
        "    ~~~~~~~~~~~~~~~~~~\n"
        "        pass\n"
        "        ~~~~\n"
        "    else:\n"
        "    ~~~~~\n"
        "`else` after a loop is no part of the language [script-construct]\n"
        "Fix: set a flag before `break`, and test it after the loop"
    ),
    "return [y for y in x for z in y]": (
        "program.py:2\n"
        "    return [y for y in x for z in y]\n"
        "           ~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "a comprehension with several `for` is no part of the language [script-construct]\n"
        "Fix: write the loops as statements"
    ),
}
