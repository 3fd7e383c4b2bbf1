"""A lowered graph as readable text: each loop body a Python function that runs again.

The form is that of the PyTorch 2 paper's figure 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from minitorch2.graph.symbols import print_condition
from minitorch2.graph.symbols.conditions import is_condition
from minitorch2.loopir.buffers import (
    Buffer,
    BufferView,
    ComputedBuffer,
    ConstantBuffer,
    ExternKernel,
    HostCall,
    InputBuffer,
    MultiOutput,
)
from minitorch2.loopir.expressions import Expr, index_symbols
from minitorch2.loopir.handlers.printer import INDENT, PrintingHandler
from minitorch2.loopir.layout import FixedLayout, Layout
from minitorch2.loopir.loops import Loops, Reduction, Scan, Scatter
from minitorch2.loopir.ops import use_handler


def print_body(name: str, loops: Loops) -> str:
    """`def inner_fn_<name>(index[, reduction_index])`: the body as Python that runs."""
    index = index_symbols("i", len(loops.ranges))
    reduction_index = index_symbols("r", len(loops.reduction_ranges))
    ranges = (*zip(index, loops.ranges), *zip(reduction_index, loops.reduction_ranges))
    printer = PrintingHandler(ranges)
    with use_handler(printer):
        if isinstance(loops, Reduction | Scan):
            result = loops.inner_fn(index, reduction_index)
        else:
            result = loops.inner_fn(index)
    lines = [*_unpack("index", index)]
    if isinstance(loops, Reduction | Scan):
        lines += _unpack("reduction_index", reduction_index)
    text = f"({result[0]}, {result[1]})" if isinstance(result, tuple) else result
    parameters = "index, reduction_index" if isinstance(loops, Reduction | Scan) else "index"
    body = "".join(f"{INDENT}{line}\n" for line in (*lines, *printer.lines, f"return {text}"))
    text = f"def inner_fn_{name}({parameters}):\n{body}"
    return text + _print_output_index(name, loops) if isinstance(loops, Scatter) else text


def _print_output_index(name: str, loops: Scatter) -> str:
    index = index_symbols("i", len(loops.ranges))
    printer = PrintingHandler(tuple(zip(index, loops.ranges, strict=True)))
    with use_handler(printer):
        place = ", ".join(map(str, loops.output_index(index)))
    lines = (*_unpack("index", index), *printer.lines, f"return ({place},)")
    body = "".join(f"{INDENT}{line}\n" for line in lines)
    return f"\ndef output_index_{name}(index):\n{body}"


def _unpack(name: str, symbols: Iterable[object]) -> list[str]:
    names = [str(symbol) for symbol in symbols]
    return [f"{', '.join(names)}{',' if len(names) == 1 else ''} = {name}"] if names else []


def print_buffer(buffer: Buffer) -> str:
    """Print one buffer: its loop body, if any, and the constructor expression."""
    if isinstance(buffer, ComputedBuffer):
        return print_body(buffer.name, buffer.loops) + "\n" + _computed(buffer)
    if isinstance(buffer, HostCall):
        target = "".join(f"{symbol} = " for symbol in buffer.symbols)
        call = f"{_name(buffer.target)}({', '.join(map(_argument, buffer.args))})"
        return f"{target}{call}  # HostCall\n"
    return _print_memory(buffer) + "".join(
        f"{symbol} = {buffer.name}.size({dim})\n" for symbol, dim in buffer.symbols.items()
    )


def _name(target: object) -> str:
    return str(getattr(target, "__name__", target))


def _print_memory(buffer: Buffer) -> str:
    if isinstance(buffer, ExternKernel):
        return _extern(buffer)
    if isinstance(buffer, MultiOutput):
        path = "".join(f"[{i}]" for i in buffer.position)
        return f"{buffer.name} = {buffer.kernel.name}{path}  # {print_layout(buffer.layout)}\n"
    kind, user = type(buffer).__name__, ", ".join(node.name for node in buffer.origins)
    comment = f"  # {user}" if user else ""
    return f"{buffer.name} = {kind}({buffer.name!r}, {print_layout(buffer.layout)}){comment}\n"


def _computed(buffer: ComputedBuffer) -> str:
    loops = buffer.loops
    fields = [f"inner_fn=inner_fn_{buffer.name}", f"ranges={_list(loops.ranges)}"]
    if isinstance(loops, Reduction):
        fields += [
            f"reduction_ranges={_list(loops.reduction_ranges)}",
            f"kind={loops.kind!r}",
            f"src_dtype={loops.src_dtype}",
        ]
    if isinstance(loops, Scan):
        fields += [f"reduction_ranges={_list(loops.reduction_ranges)}", f"kind={loops.kind!r}"]
    if isinstance(loops, Scatter):
        fields += [f"output_index=output_index_{buffer.name}", f"base={loops.base!r}"]
        fields += [f"mode={loops.mode!r}", f"is_disjoint={loops.is_disjoint}"]
    kind = type(loops).__name__
    origins = ", ".join(node.name for node in buffer.origins)
    return (
        f"{buffer.name} = TensorBox(StorageBox(ComputedBuffer(  # {origins}\n"
        f"{INDENT}name={buffer.name!r},\n"
        f"{INDENT}layout={print_layout(buffer.layout)},\n"
        f"{INDENT}data={kind}({', '.join(fields)}))))\n"
    )


def _extern(kernel: ExternKernel) -> str:
    arguments = [_argument(argument) for argument in kernel.args]
    arguments += [f"{key}={_argument(value)}" for key, value in kernel.kwargs.items()]
    how = "FallbackKernel" if kernel.is_fallback else "ExternKernel"
    target = kernel.out_variant or kernel.target
    if kernel.out_variant:
        arguments.append(f"out={kernel.name}")
    layout = "" if kernel.outputs else f" -> {print_layout(kernel.layout)}"
    return f"{kernel.name} = {target}({', '.join(arguments)})  # {how}{layout}\n"


def _argument(argument: object) -> str:
    if isinstance(argument, BufferView):
        return argument.name if argument.is_whole() else _window(argument)
    if isinstance(argument, (tuple, list)):
        inner = ", ".join(map(_argument, argument))
        return f"[{inner}]" if isinstance(argument, list) else f"({inner},)"
    return print_condition(argument) if is_condition(argument) else str(argument)


def _window(view: BufferView) -> str:
    layout = view.layout
    tail = f", {layout.offset}" if layout.offset != 0 else ""
    return f"as_strided({view.name}, {_list(layout.size)}, {_list(layout.stride)}{tail})"


def _list(sizes: Iterable[Expr]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def print_layout(layout: Layout) -> str:
    """`FixedLayout('cpu', torch.float32, size=[...], stride=[...])`"""
    kind = type(layout).__name__
    text = f"{kind}({str(layout.device)!r}, {layout.dtype}, size={_list(layout.size)}"
    if isinstance(layout, FixedLayout):
        text += f", stride={_list(layout.stride)}"
        text += f", offset={layout.offset}" if layout.offset != 0 else ""
    return text + ")"


def print_graph(
    inputs: Iterable[object], buffers: Iterable[Buffer], outputs: Iterable[object]
) -> str:
    """Print inputs, buffers in order, and outputs."""
    heads = [_input(value) for value in inputs]
    bodies = [print_buffer(buffer) for buffer in buffers]
    results = ", ".join(map(_argument, outputs))
    return "".join(heads) + "\n" + "\n".join(bodies) + f"\nreturn ({results},)\n"


def _input(value: object) -> str:
    if isinstance(value, (InputBuffer, ConstantBuffer)):
        return print_buffer(value)
    return f"input {value}\n"
