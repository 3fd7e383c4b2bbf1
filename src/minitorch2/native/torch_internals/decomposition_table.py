"""The rules by which PyTorch takes its operators apart; the import takes a while."""

from __future__ import annotations

import torch._decomp

DECOMPOSITION_TABLE = torch._decomp.decomposition_table
