"""Functions, classes and modules inside PyTorch that programs reach through its public ones."""

from typing import Any

import torch
import torch._higher_order_ops
import torch._tensor_str
from torch.nn.modules import _functions, utils
from torch.optim import asgd, optimizer, radam

TENSOR_FUNCTIONS = torch._C._VariableFunctions
NN_FUNCTIONS = torch._C._nn
ScriptModule = torch._C.ScriptModule
TensorBase = torch._C.TensorBase
higher_order_operators = torch._higher_order_ops
infer_size = torch._C._infer_size
make_tensor_subclass = torch.Tensor._make_subclass
PRINT_OPTIONS = torch._tensor_str.PRINT_OPTS

group_by_device_and_dtype = torch._C._group_tensors_by_device_and_dtype
value_of_number = optimizer._get_value
single_tensor_asgd = asgd._single_tensor_asgd
multi_tensor_asgd = asgd._multi_tensor_asgd
single_tensor_radam = radam._single_tensor_radam
multi_tensor_radam = radam._multi_tensor_radam
step_unless_infinite = torch.amp.GradScaler._maybe_opt_step
hook_tensors = torch.utils.hooks.BackwardHook._apply_on_tensors
BackwardHookFunction: Any = _functions.BackwardHookFunction

as_single, as_pair = utils._single, utils._pair
as_triple, as_quadruple = utils._triple, utils._quadruple

READERS_OF_LENGTHS = {
    *(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu),
    TENSOR_FUNCTIONS._pad_packed_sequence,
}
"""Functions of packed sequences: they read a tensor, their second argument, without an operator."""
