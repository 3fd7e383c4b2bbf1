"""The keys by which PyTorch's dispatcher chooses a kernel, and how Python takes part."""

import torch
import torch._dispatch.python

DispatchKey = torch._C.DispatchKey
DispatchKeySet = torch._C.DispatchKeySet
dispatch_keys = torch._C._dispatch_keys
included_dispatch_keys = torch._C._dispatch_tls_local_include_set
excluded_dispatch_keys = torch._C._dispatch_tls_local_exclude_set
ForceDispatchKeys = torch._C._ForceDispatchKeyGuard
BelowAutograd = torch._C._AutoDispatchBelowAutograd
DisableTorchDispatch = torch._C._DisableTorchDispatch
enable_python_dispatcher = torch._dispatch.python.enable_python_dispatcher
make_wrapper_tensor = torch.Tensor._make_wrapper_subclass
mark_conjugated, mark_negated = torch._C._set_conj, torch._C._set_neg
