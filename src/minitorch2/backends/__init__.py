"""Backends, which compile a captured graph, by name.

A backend takes a graph and example inputs (``backend(gm, example_inputs)``) and gives a callable,
which takes the tensors positionally and returns a tuple or list as the graph's output says.
Built-in: ``eager``, ``eager_noexcept``, ``aot_eager``, ``aot_eager_decomp_partition``,
``aot_numpy`` (a debug ladder: the first one that fails names the guilty layer), ``numba`` and
``triton``. A callable whose first parameter is annotated ``torch.fx.GraphModule`` gets a converted
graph, so any ``torch.compile`` backend works here.

Read ``registry``, then ``eager``, ``aot_eager``, ``fx_interop``, ``torch_entry``. This is the only
package that imports ``torch.fx``.
"""

from minitorch2.backends.fx_interop import from_torch_fx, fx_backend, to_torch_fx
from minitorch2.backends.registry import (
    Backend,
    as_backend,
    default_backend,
    fitting_backend,
    list_backends,
    lookup_backend,
    register_backend,
)
