"""PyTorch's registries of the operators that users define."""

from torch._library import custom_ops, fake_impl, simple_registry

CustomOpDef = custom_ops.CustomOpDef
CUSTOM_OPERATORS = custom_ops.OPDEFS
FAKE_KERNELS = simple_registry.singleton
set_fake_context = fake_impl.set_ctx_getter
