"""Small programs over many constructs of Python: each is captured whole and agrees with CPython."""

# The programs under test are written in every style.
# ruff: noqa

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.unit.bytecode.trackers.program import check

X = torch.arange(4.0)
PROGRAMS: list[Callable[..., Any]] = []


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(function)
    return function


class Node:
    def __init__(self, v: Any, n: Any = None) -> None:
        self.v = v
        self.next = n


class Reg:
    items: dict[str, Any] = {}

    @classmethod
    def register(cls, k: str, v: Any) -> Any:
        cls.items[k] = v
        return v


@program
def p_walrus(x: Any) -> Any:
    if (n := x.shape[0]) > 2:
        return x * n
    return x


@program
def p_chained(x: Any) -> Any:
    a = b = [1]
    b.append(2)
    return a, a is b, 1 < len(a) < 5


@program
def p_global_fn(x: Any) -> Any:
    return math.log(2) + x * math.sqrt(x.shape[0])


@program
def p_str_method(x: Any) -> Any:
    return "a,b".split(","), "%s-%s" % (1, "b"), "x".join(map(str, range(3)))


@program
def p_dict_comp(x: Any) -> Any:
    return {k: v for k, v in zip("abc", range(3))}, dict(a=1, **{"b": 2}), dict([("z", 1)])


@program
def p_sorted_tensor(x: Any) -> Any:
    return sorted(["b", "a"]), x


@program
def p_setitem(x: Any) -> Any:
    y = torch.zeros_like(x)
    y[1:] = x[1:]
    y[0] += 5
    return y


@program
def p_iadd_view(x: Any) -> Any:
    y = x.clone()
    v = y[:2]
    v += 1
    return y, v


@program
def p_tuple_cmp(x: Any) -> Any:
    return (1, 2) < (1, 3), [1] == [1], (x.shape == (4,)), x.shape != torch.Size([3])


@program
def p_dtype_logic(x: Any) -> Any:
    return (
        x.to(torch.promote_types(x.dtype, torch.float64)),
        torch.finfo(x.dtype).min,
        torch.result_type(x, 1.0),
    )


@program
def p_device(x: Any) -> Any:
    return (
        torch.zeros(2, device=x.device),
        x.device == torch.device("cpu"),
        str(x.device),
        x.device.type,
    )


@program
def p_format(x: Any) -> Any:
    return f"{x.shape}", f"{x.dtype}", f"{3:>5}", f"{list(x.shape)!r}"


@program
def p_try_import(x: Any) -> Any:
    import math as m
    from torch.nn import functional as F

    return F.relu(x) + m.pi


@program
def p_nested_fn_default(x: Any) -> Any:
    def f(a, b=[]):
        b.append(a)
        return b

    f(1)
    return f(2), x


@program
def p_none_checks(x: Any) -> Any:
    return x if None is None and not None else 0


@program
def p_reversed_dict(x: Any) -> Any:
    return list(reversed({"a": 1, "b": 2})), list({1: 2}.items())


@program
def p_type(x: Any) -> Any:
    return type(3) is int, type(x).__name__, type([])([1]), int("3"), bool([]), float("inf"), str(3)


@program
def p_lists(x: Any) -> Any:
    a = [0] * 3
    a[1:] = [5, 6]
    a[::2] = [8, 9]
    del a[0]
    return a, a * 2, [1, 2] + [3], a.copy(), x


@program
def p_while(x: Any) -> Any:
    i = 0
    while i < 5:
        i += 1
        if i == 2:
            continue
        if i == 4:
            break
        x = x + i
    else:
        x = x * 100
    return x


@program
def p_del(x: Any) -> Any:
    y = x + 1
    del x
    try:
        return x
    except UnboundLocalError:
        return y


@program
def p_ternary_many(x: Any) -> Any:
    return (
        [x * i if i % 2 else i for i in range(4)],
        any([]),
        all([]),
        sum([]),
        max(3, 1),
        min([4, 2], key=lambda v: -v),
    )


@program
def p_bool_tensor(x: Any) -> Any:
    return (x > 1) & (x < 3), ~(x > 1), (x == x).all(), torch.where(x > 1, x, -x)


@program
def p_einops(x: Any) -> Any:
    return x.reshape(2, -1).permute(1, 0).contiguous().flatten().unsqueeze(0).expand(3, -1).sum(
        dim=(0, 1)
    ), x.view(2, 2).mT


@program
def p_scalar_tensor(x: Any) -> Any:
    return torch.tensor(3.0) * x, torch.tensor([1, 2]).sum(), torch.ones(()).expand(2)


@program
def p_func_attr(x: Any) -> Any:
    def f(y):
        return y * 2

    f.scale = 3
    return f(x) * f.scale


@program
def p_closure_loop(x: Any) -> Any:
    fs = []
    for i in range(3):

        def f(y, i=i):
            return y + i

        fs.append(f)
    return [f(x) for f in fs]


@program
def p_nonlocal(x: Any) -> Any:
    t = 0

    def add(v):
        nonlocal t
        t = t + v

    for i in range(3):
        add(x * i)
    return t


@program
def p_object(x: Any) -> Any:
    o = object()
    return o is o, x


@program
def p_exc_group(x: Any) -> Any:
    try:
        raise KeyError("k")
    except (ValueError, KeyError) as e:
        try:
            raise RuntimeError("b") from e
        except RuntimeError as r:
            return x, str(r), type(r.__cause__).__name__, repr(e)


@program
def p_assert(x: Any) -> Any:
    assert x.shape[0] == 4, "bad"
    return x


@program
def p_set_ops(x: Any) -> Any:
    return {1, 2}.union([3]), len({1, 1}), {1}.issubset({1, 2}), x


@program
def p_int_ops(x: Any) -> Any:
    return (
        7 // 2,
        -7 % 3,
        2**10,
        1 << 3,
        round(2.5),
        round(2.567, 2),
        abs(-3),
        divmod(-7, 2),
        int(3.9),
        x,
    )


@program
def p_linked(x: Any) -> Any:
    n = None
    for i in range(3):
        n = Node(x + i, n)
    t = 0
    while n:
        t = t + n.v
        n = n.next
    return t


@program
def p_class_dict(x: Any) -> Any:
    Reg.register("a", 3)
    return Reg.items["a"] * x


@program
def p_cyc_obj(x: Any) -> Any:
    n = Node(x)
    n.next = n
    return n.next.next.v


@program
def p_slices(x: Any) -> Any:
    s = [slice(None), 0]
    return x[slice(1, 3)], x.view(2, 2)[tuple(s)]


@program
def p_multi_return(x: Any) -> Any:
    a = {"k": [x, (x, {"z": x})]}
    return a


@program
def p_inplace_list(x: Any) -> Any:
    l = [x, x]
    l[0].add_(1)
    return l, l[0] is l[1], l[0] is x


@program
def p_tensor_in_list(x: Any) -> Any:
    return any(x is t for t in [x, x + 1])


@program
def p_sized(x: Any) -> Any:
    (b,) = x.shape
    return x.view(b // 2, 2), [0] * b, range(b)[-1]


@program
def p_gen_exp(x: Any) -> Any:
    return tuple(x + i for i in range(2)), dict((i, i) for i in range(2)), max(i for i in (1, 3))


@program
def p_gen_state(x: Any) -> Any:
    def g():
        try:
            yield x
            yield x + 1
        finally:
            pass

    it = g()
    a = next(it)
    return a, list(it)


@program
def p_with_nested(x: Any) -> Any:
    with torch.no_grad(), torch.enable_grad():
        y = x * 2
    return y


@program
def p_ctx_exc(x: Any) -> Any:
    try:
        with torch.no_grad():
            raise ValueError("x")
    except ValueError:
        return torch.is_grad_enabled(), x


@program
def p_lambda_default(x: Any) -> Any:
    return (lambda y, *, k=2: y * k)(x)


@program
def p_apply_fn(x: Any) -> Any:
    return (
        list(map(torch.relu, [x, -x])),
        functools.partial(torch.add, x)(1),
        functools.partial(torch.sum, dim=0)(x),
    )


@program
def p_str_key(x: Any) -> Any:
    d = {"a": {"b": 1}}
    d["a"]["c"] = x
    return d


@program
def p_methods_as_values(x: Any) -> Any:
    f = x.add
    g = [].append
    return f(1), callable(f)


@program
def p_tensor_methods_unbound(x: Any) -> Any:
    return (
        torch.Tensor.add(x, 1),
        torch.Tensor.sum(x),
        str.upper("a"),
        list.__len__([1]),
        dict.get({"a": 1}, "a"),
    )


@program
def p_dict_order(x: Any) -> Any:
    d = {"b": 1, "a": 2}
    d["c"] = d.pop("b")
    return list(d), d


@program
def p_unpack_ex(x: Any) -> Any:
    a, *b, c = range(5)
    (d, e), f = (1, 2), 3
    return a, b, c, d, e, f, x


@program
def p_frozen(x: Any) -> Any:
    return frozenset([1, 2]), {frozenset([1]): 2}[frozenset([1])], x


@program
def p_kw_merge(x: Any) -> Any:
    def f(**k):
        return sorted(k.items())

    return f(**{"a": 1}, b=2), x


@program
def p_stack_list(x: Any) -> Any:
    return torch.stack([x * i for i in range(3)], dim=-1).shape[-1]


@program
def p_item_assign_slice_list(x: Any) -> Any:
    a = list(range(6))
    a[1:3] = []
    a[::2] = [9] * len(a[::2])
    return a, x


@program
def p_dtype_dict(x: Any) -> Any:
    return {torch.float32: "f"}[x.dtype], x


@program
def p_detach_chain(x: Any) -> Any:
    return (
        x.detach().clone().to("cpu", torch.float64, copy=True),
        x.float(),
        x.type(torch.int32),
        x.bool(),
    )


@program
def p_nested_with_return(x: Any) -> Any:
    with torch.no_grad():
        for i in range(3):
            if i == 1:
                return x + i


@program
def p_finally_return(x: Any) -> Any:
    def f():
        try:
            return 1
        finally:
            l.append(2)

    l = []
    return f(), l, x


@program
def p_hasattr_mod(x: Any) -> Any:
    return hasattr(torch, "nothing"), hasattr(torch, "relu"), getattr(torch, "relu")(x)


@program
def p_type_ann(x: Any) -> Any:
    y: int = 3
    return y, x


@program
def p_deep_attr(x: Any) -> Any:
    return torch.nn.functional.softmax(x, 0), torch.ops.aten.add.Tensor(x, x), torch._C._nn.gelu(x)


@program
def p_large(x: Any) -> Any:
    for _ in range(200):
        x = x + 1
    return x


@program
def p_check(x: Any) -> Any:
    torch._check(x.shape[0] == 4)
    torch._assert(x.ndim == 1, "m")
    return x


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__[2:])
def test_program(function: Callable[..., Any]) -> None:
    check(function, X, graphs=None)
