"""Functions of PyTorch that are captured as the Python they are."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.bytecode.trackers.program import check

X = torch.randn(3, 4)


def test_a_loss_that_is_given_a_function():
    def program(x, y, z):
        near = F.triplet_margin_with_distance_loss(
            x, y, z, distance_function=lambda a, b: (a - b).abs().sum(-1)
        )
        return near + nn.TripletMarginWithDistanceLoss()(x, y, z)

    check(program, X, X + 1, X * 2)


def test_a_module_that_asks_whether_there_are_other_processes():
    check(lambda module, x: module(x), nn.SyncBatchNorm(4), X)
