"""Triton from inside, and the CUDA driver that runs its kernels."""
