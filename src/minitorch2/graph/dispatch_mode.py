"""What sees every operator that PyTorch runs, without waking PyTorch's own compiler."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The base of this project's dispatch modes.

    PyTorch wraps ``__torch_dispatch__`` in a guard of its own compiler, whose import on first use
    takes about a second: more than most functions take to be compiled here. A mode can say no.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
