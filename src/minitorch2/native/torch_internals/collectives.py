"""Collectives that return new tensors, with their rules for gradients; names of process groups."""

from collections.abc import Callable
from typing import Any

from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

name_of_group = functional._resolve_group_name
size_of_group = distributed_c10d._get_group_size_by_name
active_model: Callable[[], Any] = DistributedDataParallel._get_active_ddp_module
