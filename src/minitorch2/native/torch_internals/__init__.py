"""PyTorch from inside: the memory of its tensors, its C interface, and its private names."""
