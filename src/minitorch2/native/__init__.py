"""The native floor: what no public Python interface gives, behind functions with plain names.

Takes addresses, LLVM IR and private names of CPython, PyTorch, Numba, llvmlite and Triton. Gives
functions that the floors above call without knowing any of them. Each room looks inside one thing:

- `cpython`: the frame hook, the guard machine, and the formats of code objects;
- `llvm`: LLVM modules as machine code, and built-in functions made of it;
- `kernel_library` and `kernels`: the kernel language as LLVM IR, its functions, and its run time;
- `torch_internals`: the memory of tensors and autograd's nodes, and PyTorch's private names;
- `triton_internals`: the CUDA driver behind Triton's kernels.

Reading order: `cpython/interpreter_api`, `cpython/frame_layout` and `cpython/frame_hook`. Then come
`llvm/machine_code` and `llvm/builtin`, `kernels/frontend`, `kernels/linking` and
`kernels/launcher`, and `torch_internals/tensor_layout`.
"""
