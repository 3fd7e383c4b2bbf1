"""Lists, tuples, dicts, sets and slices; tensors in them."""

import copy

import torch

from tests.unit.bytecode.language import program


@program
def list_methods(x):
    a = [x, x + 1]
    a.insert(0, x * 2)
    a.extend(t for t in [x])
    b = a.pop()
    a.reverse()
    a[1:2] = [b, b]
    del a[-1]
    return a, a * 2, a + [1], len(a), a.copy()


@program
def tensor_in_list(x):
    y = x + 1
    items = [x, y]
    return y * 2, x in items, items.index(x), [x].count(x), x not in [y][:0]


@program
def tensor_removed_from_list(x):
    y = x + 1
    items = [x, y, x]
    items.remove(x)
    return items


@program
def tensors_in_sets(x):
    y = x + 1
    seen = {x, y, x}
    seen.discard(y)
    return x + 1, len(seen), x in seen, y in seen


@program
def tensors_as_keys(x):
    y = x * 2
    table = {x: 1, y: 2}
    table[x] += 3
    return x + table[x] * table[y]


@program
def sort_by_key(x):
    rows = [(2, x), (1, x + 1)]
    rows.sort(key=lambda row: row[0])
    return rows[0][1], sorted("bca", reverse=True), sorted({3: 1, 1: 2})


@program
def minimum_of_shapes(x):
    rows = [x, x[:, :1], x[:1]]
    return (
        x + 1,
        min(rows, key=lambda t: t.dim()),
        max(len(r.shape) for r in rows),
        max([1], default=2),
    )


@program
def maximum_of_default(x):
    return x + max([], default=3) + min(4, 2, 3)


@program
def sum_with_start(x):
    return sum([x, x], x * 10), sum([[1], [2]], []), sum((1, 2.5))


@program
def dict_methods(x):
    d = {"a": x, "b": x + 1}
    d.update(c=3, **{"d": 4})
    e = d | {"a": 1}
    d.setdefault("z", []).append(x)
    popped = d.pop("b")
    last = d.popitem()
    return popped, last, e["a"], list(d.items()), d.get("no", 7), "c" in d, {**d, "q": 1}


@program
def dict_views(x):
    d = {"a": 1, "b": 2}
    return (
        x + len(d.keys() & {"a"}),
        sorted(d.keys() - {"a"}),
        d.items() >= {("a", 1)},
        list(reversed(d)),
    )


@program
def dict_comprehension(x):
    d = {k: x * i for i, k in enumerate("abc") if k != "b"}
    return (
        {v: k for k, v in {"p": 1}.items()},
        d["c"],
        dict(zip("ab", [1, 2])),
        dict.fromkeys("ab", 0),
    )


@program
def set_operations(x):
    a, b = {1, 2, 3}, frozenset({2, 3, 4})
    a |= {9}
    a -= {1}
    return (
        x + len(a & b),
        sorted(a ^ b),
        a.isdisjoint({0}),
        b.issuperset({2}),
        {i % 2 for i in range(4)},
    )


@program
def sets_sought_in_sets(x):
    """A set has no hash: CPython seeks a frozen set in its place."""
    inner = frozenset({1})
    s, asked = {2, inner, frozenset()}, {1}
    found = asked in s, {3} not in s, set() in s, [*map(s.__contains__, [{1}, {2}])]
    s.discard({3})
    s.discard(asked)
    s.remove(set())
    asked.add(2)
    try:
        s.remove(asked)
    except KeyError as error:
        return x + len(s), s, found, error.args, asked in frozenset({frozenset({1, 2})})


@program
def slices(x):
    s = slice(1, None, 2)
    items = list(range(6))
    items[::2] = [0, 0, 0]
    return x[s], items[s], s.indices(5), s.start, items[-2:], x[..., :2], x[None, 0]


@program
def unpacking(x):
    a, (b, *c), d = x, (1, 2, 3), [4]
    first, *_, last = [x, 1, x * 2]
    return a + b, c, [*d, *c], (*c, a), {**{"k": d}}, first + last


@program
def swapped(x):
    a, b = x, x + 1
    a, b = b, a
    items = [a, b]
    items[0], items[1] = items[1], items[0]
    return items


@program
def tuples(x):
    t = (x, 1) + (2,)
    return (
        x + 1,
        t * 2,
        t[1:].count(1),
        t[1:].index(2),
        t[::-1],
        (1, 2) < (1, 3),
        hash((1, 2)) == hash((1, 2)),
        () == (),
    )


@program
def nested_mutation(x):
    tree = {"a": [{"b": x}]}
    tree["a"][0]["b"] = tree["a"][0]["b"] + 1
    tree["a"].append(tree["a"][0])
    return tree


@program
def shallow_copy(x):
    a = [x, [1]]
    b = copy.copy(a)
    b[1].append(2)
    b.append(3)
    return x + 1, a, b


@program
def deep_copy(x):
    a = {"k": [x, {"n": 1}], "s": {1, 2}, "t": (x,)}
    b = copy.deepcopy(a)
    b["k"][1]["n"] = 2
    b["k"][0].add_(1)
    return a, b


@program
def copy_of_tensor(x):
    y, z = copy.copy(x), copy.deepcopy(x)
    z.add_(1)
    return y, z


@program
def copy_of_object(x):
    class Box:
        def __init__(self, value):
            self.value = value

    a = Box([x])
    b, c = copy.copy(a), copy.deepcopy(a)
    b.value.append(1)
    return len(a.value), len(c.value), c.value[0]


class Custom:
    def __init__(self, value):
        self.value = value

    def __copy__(self):
        return Custom(self.value + 1)

    def __deepcopy__(self, memo):
        return Custom(self.value + 2)


@program
def copy_by_methods(x):
    return copy.copy(Custom(x)).value, copy.deepcopy([Custom(x)])[0].value


@program
def ranges(x):
    r = range(2, 10, 3)
    return x + r[1], len(r), 5 in r, list(reversed(r)), r.index(8), r[1:], r == range(2, 11, 3)


@program
def enumerated(x):
    return [(i, row) for i, row in enumerate([x, x + 1], start=5)], list(zip(*[(1, 2), (3, 4)]))


@program
def filtered_and_mapped(x):
    return list(map(lambda t, k: t * k, [x, x], [2, 3])), list(filter(None, [0, 1, "", "a"]))


@program
def sequence_compare(x):
    return x + ([1, 2] == [1, 2]), [1] < [2], (x, 1)[1:] == (1,), {"a": 1} != {"a": 2}, [x] == [x]


@program
def list_of_lists(x):
    grid = [[0] * 2 for _ in range(2)]
    grid[1][0] = x
    return x + 1, grid, [cell for row in grid for cell in row if cell is not x]


@program
def set_of_tuples(x):
    seen = {(i % 2, "k") for i in range(4)}
    return x + len(seen), (1, "k") in seen


@program
def iterator_by_hand(x):
    it = iter([x, x + 1])
    first = next(it)
    rest = list(it)
    return first, rest, next(it, "end"), next(iter({}), None)


@program
def zip_strict(x):
    try:
        list(zip([1], [1, 2], strict=True))
    except ValueError as error:
        return x + 1, str(error)


@program
def bytes_and_arrays(x):
    b = b"abc"
    return (
        x + b[0],
        b[1:],
        bytes([1, 2]),
        b.decode(),
        "é".encode(),
        b.hex(),
        b + b"d",
        bytearray(b"q") == b"q",
    )


@program
def memory_of_bytearray(x):
    b = bytearray(b"ab")
    b.append(99)
    b[0] = 122
    return x + len(b), bytes(b)


@program
def dict_order_kept(x):
    d = {"b": 1, "a": 2}
    d["b"] = x
    del d["a"]
    d["a"] = 3
    return x + 1, d


@program
def equal_but_other_keys(x):
    return x + 1, {1: "a", True: "b", 1.0: x}, {0: 1, False: 2}


@program
def min_max_of_tensors(x):
    a, b = x.sum(), torch.zeros(())
    return torch.maximum(a, b), max(a.dim(), 1)


@program
def starred_call(x):
    def f(*args, k=1, **kw):
        return sum(args) * k, sorted(kw)

    return f(*[x, x], *(1,), **{"k": 2}, **{"z": 3})
