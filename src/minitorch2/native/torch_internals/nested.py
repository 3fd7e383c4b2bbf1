"""Jagged nested tensors: rows of different lengths, one after another in one tensor."""

from torch.nested._internal import nested_int, nested_tensor

NestedTensor = nested_tensor.NestedTensor
NestedIntNode = nested_int.NestedIntNode
RAGGED_SIZES = nested_tensor._tensor_symint_registry
