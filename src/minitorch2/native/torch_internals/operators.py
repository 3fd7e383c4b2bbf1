"""The classes of PyTorch's operators, their registries, and the rules that it has for them."""

import torch
import torch._decomp
import torch._prims_common
from torch._library import custom_ops, fake_impl, simple_registry

OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket
has_kernel = torch._C._dispatch_has_kernel
has_kernel_for_key = torch._C._dispatch_has_kernel_for_dispatch_key
DECOMPOSITION_TABLE = torch._decomp.decomposition_table
elementwise_strides = torch._prims_common.compute_elementwise_output_strides
suggest_memory_format = torch._prims_common.suggest_memory_format

CustomOpDef = custom_ops.CustomOpDef
CUSTOM_OPERATORS = custom_ops.OPDEFS
FAKE_KERNELS = simple_registry.singleton
set_fake_context = fake_impl.set_ctx_getter
