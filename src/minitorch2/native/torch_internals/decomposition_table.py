"""The rules by which PyTorch takes its operators apart; the import takes a while."""

import torch._decomp

DECOMPOSITION_TABLE = torch._decomp.decomposition_table
