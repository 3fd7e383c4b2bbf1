"""PyTorch's rules for the layouts of results."""

import torch._prims_common

elementwise_strides = torch._prims_common.compute_elementwise_output_strides
suggest_memory_format = torch._prims_common.suggest_memory_format
