"""The options of capture in a process that belongs to a job.

Collectives are captured, and a model inside of `DistributedDataParallel` gives its gradients bucket
by bucket.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

from minitorch2 import config
from minitorch2.distributed import collectives
from minitorch2.native.torch_internals.collectives import active_model

assert collectives  # importing it marks the functions that capture evaluates in another way


def in_job() -> AbstractContextManager[object]:
    """Return a context with the options of what is compiled now."""
    if "torch.distributed.tensor" in sys.modules:
        import_module("minitorch2.distributed.dtensor")  # it marks functions, too
    model = active_model()
    if model is None or config.current().bucket_bytes or config.current().cudagraphs:
        return nullcontext()
    return config.patch(bucket_bytes=model.bucket_bytes_cap)
