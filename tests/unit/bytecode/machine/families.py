"""One small program per family of opcodes: name -> (source of a function `f`, argument tuples)."""

FAMILIES: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "arithmetic": (
        "def f(a, b):\n    return a + b, a - b, a * b, a / b, a // b, a % b, a ** 2, -a, +a, ~a",
        [(7, 2), (1, 0), ("x", 1)],
    ),
    "bits": ("def f(a, b):\n    return a & b, a | b, a ^ b, a << b, a >> b", [(6, 3), (1, -1)]),
    "in place": (
        "def f(a, b):\n    a += b\n    a *= b\n    a -= 1\n    a //= b\n    a **= 2\n    return a",
        [(5, 3), (5, 0)],
    ),
    "comparisons": (
        "def f(a, b):\n    return a < b, a <= b, a == b, a != b, a > b, a >= b, a is b,"
        " a is not b, a in [b], a not in [b], a < b < 9",
        [(1, 2), (2, 1), (1, 1), (1, "x")],
    ),
    "truth": (
        "def f(a, b):\n    return a and b, a or b, not a, (1 if a else 2), not (a and not b)",
        [(0, 1), (1, 0), ([], "x"), (1.5, [])],
    ),
    "none tests": (
        "def f(a):\n    if a is None:\n        return 1\n    if a is not None and a:\n        return 2"
        "\n    return 3",
        [(None,), (0,), (1,)],
    ),
    "bool that raises": (
        "class C:\n    def __bool__(self):\n        raise KeyError('no')\n"
        "def f(a):\n    x = C()\n    if (a and\n            x):\n        return 1\n    return not x",
        [(1,), (0,)],
    ),
    "while": (
        "def f(n):\n    t = 0\n    while n > 0:\n        n -= 1\n        if n == 5:\n"
        "            continue\n        if n == 1:\n            break\n        t += n\n    else:\n"
        "        t = -t\n    return t",
        [(0,), (9,), (3,)],
    ),
    "for": (
        "def f(xs):\n    t = []\n    for i, x in enumerate(xs):\n        for y in range(x):\n"
        "            if y == 3:\n                break\n            t.append((i, y))\n        else:\n"
        "            t.append(i)\n    else:\n        t.append('end')\n    return t",
        [([],), ([1, 5, 2],), ([None],)],
    ),
    "for returns": (
        "def f(xs):\n    for x in xs:\n        if x:\n            return x\n    raise KeyError(xs)",
        [([0, 2],), ([],)],
    ),
    "calls": (
        "def g(*a, **k):\n    return a, k\n"
        "def f(a, b):\n    return g(a), g(a, b, x=1), g(*a), g(b, *a, y=2, **b), a.count(1), len(a)",
        [((1, 2), {"z": 1}), ((1,), {"y": 1}), (1, 2)],
    ),
    "methods": (
        "def f(s):\n    return s.upper().split(), s.join(['a', 'b']), s.replace('a', s), str.lower(s)",
        [("a b",), (1,)],
    ),
    "attributes": (
        "class C:\n    pass\ndef f(v):\n    c = C()\n    c.x = v\n    c.x += 1\n    del c.x\n"
        "    return c.x",
        [(1,), ("a",)],
    ),
    "subscripts": (
        "def f(x):\n    x[0] = 5\n    x[1] += 1\n    del x[2]\n    y = x[1:3]\n    x[0:1] = [9, 9]\n"
        "    return x, y, x[::2], x[-1]",
        [([1, 2, 3, 4],), ([1],)],
    ),
    "collections": (
        "def f(a, b):\n    return [a, *b, 1], (a, *b), {a, *b}, {a: b, **{'k': 1}}, {'x': a, 'y': b},"
        " [1, 2, 3], (1, 2), {1, 2, 3}",
        [(1, (2, 3)), (1, 2)],
    ),
    "unpacking": (
        "def f(x):\n    a, b = x\n    c, *d = x\n    *e, g = x\n    (h, i), j = x, a\n"
        "    return a, b, c, d, e, g, h, i, j",
        [((1, 2),), ([1, 2],), ((1, 2, 3),)],
    ),
    "f-strings": (
        "def f(a, w):\n    return f'{a}', f'{a!r:>{w}}|{a!s}|{a!a}', f'{a:5}{w=}', f'x{a}y{w:03d}'",
        [("ä", 6), (1, 2), ("x", "y")],
    ),
    "closures": (
        "def f(a):\n    b = a\n    def g(c, d=a, *, e=2):\n        nonlocal b\n        b += c + e\n"
        "        return a, b, d\n    r = g(1), g(2, e=3)\n    del a\n    return r, b",
        [(1,), (0,), ("x",)],
    ),
    "deleted cell": (
        "def f(a):\n    g = lambda: a\n    del a\n    return g()",
        [(1,)],
    ),
    "annotations": (
        "def f(a):\n    def g(x: int, *, y: str = 'y') -> float:\n        return x, y\n"
        "    return g.__annotations__, g.__kwdefaults__, g(a)",
        [(1,)],
    ),
    "comprehensions": (
        "def f(n):\n    x = 'kept'\n    return [x for x in range(n)], {x: y for x in range(n)"
        " for y in range(x) if y}, {x % 2 for x in range(n)}, sum(x for x in range(n)), x",
        [(0,), (5,), ("a",)],
    ),
    "captured in comprehension": (
        "def f(n):\n    x = 7\n    h = lambda: x\n    fs = [lambda: x for x in range(n)]\n"
        "    return [g() for g in fs], x, h()",
        [(3,), (0,)],
    ),
    "plain in comprehension, captured outside": (
        "def f(n):\n    x = 7\n    h = lambda: x\n    r = [(x, lambda: n) for x in range(n)]\n"
        "    return [a for a, _ in r], x, h(), [g() for _, g in r]",
        [(3,), (0,)],
    ),
    "free and local in comprehension": (
        "def f(n):\n    x = 7\n    def g():\n        r = [x for x in range(n)]\n        return r, x\n"
        "    return g()",
        [(3,)],
    ),
    "globals": (
        "count = 0\ndef f(n):\n    global count, fresh\n    count += n\n    fresh = count\n"
        "    del fresh\n    return count, fresh",
        [(1,)],
    ),
    "unbound": (
        "def f(a):\n    if a:\n        x = 1\n    y = x\n    del x\n    return x",
        [(0,), (1,)],
    ),
    "try": (
        "def f(a):\n    r = []\n    try:\n        r.append(1 / a)\n    except ZeroDivisionError as e:\n"
        "        r.append(str(e))\n    except (TypeError, KeyError):\n        r.append('type')\n"
        "        raise\n    else:\n        r.append('else')\n    finally:\n        print(r)\n    return r",
        [(0,), (1,), ("a",)],
    ),
    "nested try": (
        "def f(a):\n    try:\n        try:\n            a[0]\n        except KeyError:\n"
        "            print('key')\n            raise ValueError('v') from None\n        finally:\n"
        "            print('inner')\n            a.pop\n    except ValueError as e:\n"
        "        return repr(e)\n    except TypeError:\n        raise\n    return 'fine'",
        [({},), ([1],), (1,), ((1,),)],
    ),
    "finally returns": (
        "def f(a):\n    for i in range(3):\n        try:\n            if i == a:\n                return i\n"
        "            continue\n        finally:\n            print(i)\n            if a == 2:\n"
        "                break\n    return 'end'",
        [(0,), (2,), (9,)],
    ),
    "with": (
        "import contextlib\n@contextlib.contextmanager\ndef c(n):\n    print('in', n)\n    try:\n"
        "        yield n\n    finally:\n        print('out', n)\n"
        "def f(a):\n    with c(1) as x, c(2):\n        with contextlib.suppress(KeyError):\n"
        "            a[x]\n        return 1 / a[5]",
        [({},), ({1: 1, 5: 2},), (3,)],
    ),
    "except groups": (
        "def f(a):\n    try:\n        raise ExceptionGroup('g', [ValueError(a), KeyError(a)])\n"
        "    except* ValueError as e:\n        print('v', e)\n    except* KeyError:\n        raise",
        [(1,)],
    ),
    "assert and raise": (
        "def f(a):\n    assert a, 'message'\n    if a > 1:\n        raise ValueError from KeyError(a)\n"
        "    raise",
        [(0,), (1,), (2,)],
    ),
    "match": (
        "def f(x):\n    match x:\n        case [a, *b] if a:\n            return a, b\n"
        "        case {'k': v, **r}:\n            return v, r\n        case int(real=z):\n"
        "            return z\n        case 'a' | 'b':\n            return 'ab'\n    return 'none'",
        [([1, 2],), ({"k": 1, "l": 2},), (5,), ("a",), (2.0,)],
    ),
    "classes": (
        "def f(a):\n    class B:\n        x: int = a\n        z = x\n        del z\n        ys = [a for _ in range(2)]\n"
        "        def m(self, n=1):\n            return n, __class__.__name__\n"
        "    class C(B):\n        def m(self):\n            s = super()\n"
        "            return super().m(a), s.m(), super().x\n    return C().m(), B.ys",
        [(4,)],
    ),
    "imports": (
        "def f(n):\n    import os.path as p\n    from math import floor, sqrt\n    return p.join('a', n),"
        " floor(sqrt(9))",
        [("b",), (1,)],
    ),
    "walrus": (
        "def f(xs):\n    return [y for x in xs if (y := x + 1) > 2], y",
        [([1, 2, 3],), ([],)],
    ),
    "generators": (
        "def f(n):\n    def g(k):\n        try:\n            for i in range(k):\n                got = yield i\n"
        "                print(got)\n        finally:\n            print('closed')\n        return k\n"
        "    def h():\n        r = yield from g(n)\n        yield r\n"
        "    it = h()\n    next(it)\n    return it.send('s'), list(it)",
        [(3,), (0,)],
    ),
    "coroutines": (
        "import asyncio\ndef f(n):\n    async def g(k):\n        await asyncio.sleep(0)\n        return k\n"
        "    async def ag():\n        for i in range(n):\n            yield await g(i)\n"
        "    class C:\n        async def __aenter__(self):\n            return n\n"
        "        async def __aexit__(self, *error):\n            print(error)\n"
        "    async def h():\n        async with C() as m:\n            print(m)\n"
        "        async for y in ag():\n            print(y)\n"
        "        return [x async for x in ag()], await g(n)\n"
        "    return asyncio.run(h())",
        [(3,)],
    ),
    "many variables": (
        "def f(a):\n" + "".join(f"    v{i} = a + {i}\n" for i in range(300)) + "    t = 0\n"
        "    for i in range(3):\n        if i == a:\n            continue\n"
        + "".join(f"        t += v{i} * {i + 1000}\n" for i in range(300))
        + "    return t, v299",
        [(1,), (7,)],
    ),
    "evaluation order": (
        "def f(a):\n    def p(x):\n        print(x)\n        return x\n"
        "    return {p(1): p(2)}, p(3) if p(a) else p(4), (p(5),\n        p(6) + p(a[0]))",
        [([1],), ("",)],
    ),
}
