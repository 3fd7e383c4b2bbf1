"""The classes of PyTorch's operators, and the kernels that its dispatcher knows for them."""

import torch

OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket
has_kernel = torch._C._dispatch_has_kernel
has_kernel_for_key = torch._C._dispatch_has_kernel_for_dispatch_key
