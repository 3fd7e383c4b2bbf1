"""Transforms of functions as PyTorch's documentation describes them, around functions of tensors.

Each takes its own options and then the arguments of the transformed function. They flatten
arguments and results. `transformed`, for which capture has a rule
(``trackers/torch_values/transform_rules.py``), is given functions from tensors to ``(tensors,
structure)``. `refuse` leaves calls that PyTorch itself refuses to it, so its own error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import torch

from minitorch2.native.torch_internals.pytree import tree_flatten, tree_map, tree_unflatten

Body: TypeAlias = Callable[..., tuple[list[torch.Tensor], Any]]
"""From tensors to tensors, and what tells how they belong together."""


def transformed(
    kind: str,
    body: Body,
    arguments: Sequence[torch.Tensor],
    places: Sequence[int],
    vectors: Sequence[torch.Tensor],
    options: Callable[[Any], dict[str, Any]],
) -> tuple[list[torch.Tensor], Any]:
    """Return a transform's results for the body, and the second result of the body.

    Args:
        kind: a key of `minitorch2.graph.transforms.KINDS`.
        body: the function; it is evaluated once.
        arguments: the tensors that it is called with.
        places: of ``vmap`` the dimension of each argument; of others, in which arguments reverse
            derivatives are taken.
        vectors: the other tensors that the transform is given.
        options: from the second result of the body to the options of the kind.
    """
    raise NotImplementedError("capture has a rule for this function")


def recorded(kind: str, body: Body, arguments: Sequence[torch.Tensor]) -> tuple[Any, Any, Any]:
    """Return the two results of a body, and the call as `at_recorded` takes it."""
    raise NotImplementedError("capture has a rule for this function")


def at_recorded(
    kind: str, call: Any, vectors: Sequence[torch.Tensor], options: dict[str, Any]
) -> list[torch.Tensor]:
    """Return the results of a transform of a recorded call, which multiplies with vectors."""
    raise NotImplementedError("capture has a rule for this function")


def refuse(cause: str, code: str = "transform") -> NoReturn:
    """Leave a call to PyTorch."""
    raise NotImplementedError(cause)


# torch.func ---------------------------------------------------------------------------------------


def vmap(
    func: Any,
    in_dims: Any,
    out_dims: Any,
    randomness: Any,
    chunk_size: Any,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """``torch.vmap(func, ...)(*args, **kwargs)``"""
    leaves, structure = tree_flatten(args)
    if type(in_dims) is not int and type(in_dims) is not tuple:
        refuse("in_dims that are neither a number nor a tuple")
    dims = _spread(in_dims, args)
    values = [x for x, dim in zip(leaves, dims, strict=True) if dim is not None]
    own_dims = tuple([dim for dim in dims if dim is not None])
    if not values:
        refuse("a vmap over no argument")

    def body(*batched: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
        rest = iter(batched)
        mixed = [x if dim is None else next(rest) for x, dim in zip(leaves, dims, strict=True)]
        results, form = tree_flatten(func(*tree_unflatten(mixed, structure), **kwargs))
        return results, form

    def options(form: Any) -> dict[str, Any]:
        return {
            "in_dims": own_dims,
            "out_dims": _out_dims(out_dims, form),
            "randomness": randomness,
            "chunk_size": chunk_size,
        }

    results, form = transformed("vmap", body, values, own_dims, [], options)
    return tree_unflatten(results, form)


def _out_dims(out_dims: Any, form: Any) -> tuple[Any, ...]:
    """Return a dimension for each leaf of the results."""
    places = tree_unflatten(list(range(form.num_leaves)), form)
    if type(out_dims) is tuple and len(out_dims) == 1 and places == 0:
        return out_dims
    return tuple(_spread(out_dims, places))


def _spread(dims: Any, values: Any) -> list[Any]:
    """Return a dimension for each leaf; one for a whole part holds for its leaves."""
    if dims is None or type(dims) is int:
        leaves, _ = tree_flatten(values)
        return [dims for _ in leaves]
    if type(dims) is not type(values) or len(dims) != len(values):
        refuse("dimensions whose structure is not that of the values")
    if isinstance(values, dict):
        if list(dims) != list(values):
            refuse("dimensions whose structure is not that of the values")
        return [dim for key in values for dim in _spread(dims[key], values[key])]
    if not isinstance(values, (tuple, list)):
        refuse("dimensions whose structure is not that of the values")
    return [dim for part, value in zip(dims, values, strict=True) for dim in _spread(part, value)]


def grad(func: Any, argnums: Any, has_aux: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``torch.func.grad(func, ...)(*args, **kwargs)``"""
    gradients, result = grad_and_value(func, argnums, has_aux, *args, **kwargs)
    return (gradients, result[1]) if has_aux else gradients


def grad_and_value(func: Any, argnums: Any, has_aux: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``torch.func.grad_and_value(func, ...)(*args, **kwargs)``"""

    def options(count: int) -> dict[str, Any]:
        return {} if count == 1 else refuse("gradients of a function whose result is no tensor")

    width, places, results, form, _ = _derived(
        "grad", func, argnums, has_aux, options, args, kwargs
    )
    return _like(places, results[:width]), tree_unflatten(results[width:], form)


def jacrev(
    func: Any, argnums: Any, has_aux: Any, chunk_size: Any, /, *args: Any, **kwargs: Any
) -> Any:
    """``torch.func.jacrev(func, ...)(*args, **kwargs)``"""
    return _jacobian("jacrev", func, argnums, has_aux, {"chunk_size": chunk_size}, args, kwargs)


def jacfwd(
    func: Any, argnums: Any, has_aux: Any, randomness: Any, /, *args: Any, **kwargs: Any
) -> Any:
    """``torch.func.jacfwd(func, ...)(*args, **kwargs)``"""
    return _jacobian("jacfwd", func, argnums, has_aux, {"randomness": randomness}, args, kwargs)


def _jacobian(
    kind: str, func: Any, argnums: Any, has_aux: Any, more: dict[str, Any], args: Any, kwargs: Any
) -> Any:
    def options(count: int) -> dict[str, Any]:
        return {"outputs": count, "options": more}

    width, places, results, form, count = _derived(
        kind, func, argnums, has_aux, options, args, kwargs
    )
    rows = [_like(places, results[i * width : (i + 1) * width]) for i in range(count)]
    return tree_unflatten([*rows, *results[count * width :]], form)


def _derived(
    kind: str,
    func: Any,
    argnums: Any,
    has_aux: Any,
    options: Callable[[int], dict[str, Any]],
    args: Any,
    kwargs: Any,
) -> tuple[int, Any, list[Any], Any, int]:
    """Return the number and the places of the tensors that a transform derives in, and its results.

    Return their form, too, and how many of them are not auxiliary; `options` gets this number.
    """
    leaves, structure = tree_flatten(args)
    places = _places(argnums, args)
    tensors = _Tensors(leaves, tree_flatten(places)[0])

    def body(*values: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
        results, form, count = _split(
            func(*tensors.arguments(values, structure), **kwargs), has_aux
        )
        return results, (form, count)

    def all_options(found: Any) -> dict[str, Any]:
        return {"argnums": tensors.argnums, **options(found[1])}

    own = () if kind == "jacfwd" else tensors.argnums
    results, (form, count) = transformed(kind, body, tensors.values, own, [], all_options)
    return len(tensors.argnums), places, results, form, count


def hessian(func: Any, argnums: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``torch.func.hessian(func, argnums)(*args, **kwargs)``: forward over reverse"""
    return torch.func.jacfwd(torch.func.jacrev(func, argnums), argnums)(*args, **kwargs)


def functionalize(func: Any, remove: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``torch.func.functionalize(func, ...)(*args, **kwargs)``: writes are told apart later"""
    return func(*args, **kwargs)


def vjp(func: Any, *primals: Any, has_aux: Any = False) -> Any:
    """``torch.func.vjp(func, *primals, has_aux=)``"""
    leaves, structure = tree_flatten(primals)

    def body(*values: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
        results, form, _ = _split(func(*tree_unflatten(values, structure)), has_aux)
        return results, form

    results, form, call = recorded("vjp", body, leaves)
    value = tree_unflatten(results, form)
    _, output_form = tree_flatten(value[0] if has_aux else value)

    def vjp_fn(cotangents: Any, retain_graph: Any = True, create_graph: Any = None) -> Any:
        vectors, its_form = tree_flatten(cotangents)
        if its_form != output_form:
            refuse("cotangents whose structure is not that of the results")
        gradients = at_recorded("vjp", call, vectors, {"primals": len(leaves)})
        return tree_unflatten(gradients, structure)

    return (value[0], vjp_fn, value[1]) if has_aux else (value, vjp_fn)


def jvp(
    func: Any, primals: Any, tangents: Any, *, strict: Any = False, has_aux: Any = False
) -> Any:
    """``torch.func.jvp(func, primals, tangents, ...)``"""
    leaves, structure = tree_flatten(primals)
    vectors, its_structure = tree_flatten(tangents)
    if type(primals) is not tuple or structure != its_structure:
        refuse("tangents whose structure is not that of the primals")

    def body(*values: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
        results, form, count = _split(func(*tree_unflatten(values, structure)), has_aux)
        return results, (form, count)

    def options(found: Any) -> dict[str, Any]:
        return {"primals": len(leaves), "outputs": found[1], "strict": strict}

    results, (form, count) = transformed("jvp", body, leaves, (), vectors, options)
    value = tree_unflatten([*results[:count], *results[2 * count :]], form)
    output = value[0] if has_aux else value
    _, output_form = tree_flatten(output)
    derivative = tree_unflatten(results[count : 2 * count], output_form)
    return (output, derivative, value[1]) if has_aux else (output, derivative)


def linearize(func: Any, *primals: Any) -> Any:
    """``torch.func.linearize(func, *primals)``"""
    leaves, structure = tree_flatten(primals)

    def body(*values: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
        return tree_flatten(func(*tree_unflatten(values, structure)))

    results, form, call = recorded("jvp", body, leaves)

    def jvp_fn(*tangents: Any) -> Any:
        vectors, its_structure = tree_flatten(tangents)
        if its_structure != structure:
            refuse("tangents whose structure is not that of the primals")
        options = {"primals": len(leaves), "outputs": len(results), "strict": False}
        found = at_recorded("jvp", call, vectors, options)
        return tree_unflatten(found[len(results) :], form)

    return tree_unflatten(results, form), jvp_fn


def _split(result: Any, has_aux: Any) -> tuple[list[Any], Any, int]:
    """Return the leaves of a result, its structure, and the number of leaves not auxiliary."""
    leaves, form = tree_flatten(result)
    if not has_aux:
        return leaves, form, len(leaves)
    if type(result) is not tuple or len(result) != 2:
        refuse("a result that is no pair, where there are auxiliary results")
    return leaves, form, len(tree_flatten(result[0])[0])


class _Tensors:
    """The leaves of arguments that are tensors.

    Attributes:
        values: these tensors.
        argnums: positions among them of the tensors that derivatives are taken in.
    """

    def __init__(self, leaves: list[Any], wanted: list[int]) -> None:
        self.leaves = leaves
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if any(place not in places for place in wanted):
            refuse("a derivative in what is no tensor")
        self.places = places
        self.values = [leaves[place] for place in places]
        self.argnums = tuple([places.index(place) for place in wanted])

    def arguments(self, values: Sequence[torch.Tensor], structure: Any) -> Any:
        """Return the arguments with other tensors."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        return tree_unflatten(leaves, structure)


def _places(argnums: Any, args: Any) -> Any:
    """Return positions among all leaves, in the structure of the wanted arguments."""
    leaves, structure = tree_flatten(args)
    numbered = tree_unflatten(list(range(len(leaves))), structure)
    if type(argnums) is int:
        if not -len(args) <= argnums < len(args):
            refuse("a derivative in an argument that is not given by position")
        return numbered[argnums]
    if type(argnums) is not tuple:
        refuse("argnums that are neither a number nor a tuple")
    return tuple([_places(number, args) for number in argnums])


def _like(places: Any, leaves: list[Any]) -> Any:
    return tree_unflatten(leaves, tree_flatten(places)[1])


# torch.autograd.functional ------------------------------------------------------------------------


def autograd_functional(
    name: str, func: Any, inputs: Any, vectors: Any, options: Mapping[str, Any]
) -> Any:
    """``torch.autograd.functional.<name>(func, inputs, [v], **options)``"""
    if options.get("vectorize"):
        return _vectorized(name, func, inputs, options)
    several = isinstance(inputs, tuple)
    values = list(inputs) if several else [inputs]
    given = [] if vectors is None else list(vectors) if isinstance(vectors, tuple) else [vectors]

    def body(*values: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
        result = func(*values)
        return (list(result), True) if isinstance(result, tuple) else ([result], False)

    def all_options(form: Any) -> dict[str, Any]:
        return {"name": name, "arguments": len(values), "options": options}

    width = len(values)
    places = tuple(range(width))
    found, results = transformed("functional", body, values, places, given, all_options)
    if name in ("jacobian", "hessian"):
        rows = [_row(found[i : i + width], several) for i in range(0, len(found), width)]
        return _row(rows, results if name == "jacobian" else several)
    count = len(found) - width if name == "vjp" else len(found) // 2 if name == "jvp" else 1
    second = results if name == "jvp" else several
    return _row(found[:count], results), _row(found[count:], second)


def _vectorized(name: str, func: Any, inputs: Any, options: Mapping[str, Any]) -> Any:
    """Run the transforms of `torch.func` that ``vectorize=True`` stands for."""
    if options["strict"]:
        refuse("vectorize=True together with strict=True")
    several = isinstance(inputs, tuple)
    values = inputs if several else (inputs,)
    argnums = tuple(range(len(values))) if several else 0
    strategies = (options.get("strategy"), options.get("outer_jacobian_strategy"))
    keeps = options["create_graph"] or "forward-mode" in strategies
    values = tuple([x.view_as(x) if keeps else x.detach() for x in values])
    if name == "jacobian":
        found = _by_strategy(options["strategy"])(func, argnums)(*values)
    else:
        outer = _by_strategy(options["outer_jacobian_strategy"])
        found = outer(torch.func.jacrev(func, argnums), argnums)(*values)
    return found if keeps else tree_map(torch.Tensor.detach, found)


def _by_strategy(strategy: Any) -> Any:
    if strategy == "forward-mode":
        return torch.func.jacfwd
    return torch.func.jacrev if strategy == "reverse-mode" else refuse("an unknown strategy")


def _row(parts: list[Any], several: Any) -> Any:
    return tuple(parts) if several else parts[0]
