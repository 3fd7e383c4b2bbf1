"""Nested tuples, lists and dicts as flat lists with a structure."""

from torch.utils import _pytree

TreeSpec = _pytree.TreeSpec
tree_flatten = _pytree.tree_flatten
tree_leaves = _pytree.tree_leaves
tree_map = _pytree.tree_map
tree_map_only = _pytree.tree_map_only
tree_unflatten = _pytree.tree_unflatten
