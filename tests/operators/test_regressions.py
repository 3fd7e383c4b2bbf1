"""Bugs that the operator sweep found, one test each."""

import pytest
import torch

from minitorch2.autograd import aot_autograd
from minitorch2.graph.graph import Graph
from minitorch2.graph.graph_module import GraphModule
from tests.operators.compare import assert_equal, interpreted
