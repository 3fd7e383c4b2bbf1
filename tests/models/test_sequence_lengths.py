"""Text models of `transformers`, with random weights, on sequences of all lengths: two graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import minitorch2
from minitorch2 import stages
from minitorch2.testing import assert_same

transformers = pytest.importorskip("transformers")
SMALL = {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": 1}


def bert() -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=60, intermediate_size=32, **sizes)
    return transformers.BertModel(config)


def gpt2() -> Any:
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=64, **SMALL)
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(intermediate_size=32, num_key_value_heads=1, **sizes, **SMALL)
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("make", [bert, gpt2, llama])
def test_two_graphs_serve_all_lengths(make: Any) -> None:
    torch.manual_seed(0)
    model = make().eval()
    graphs = []
    with stages.collect() as log, torch.no_grad():
        fast = minitorch2.compile(model, backend="aot_eager")
        for length in (7, 12, 31, 5, 64):
            tokens = torch.randint(2, 60, (2, length))
            mask = torch.ones_like(tokens)
            mask[0, length // 2 :] = 0
            arguments = {"input_ids": tokens, "attention_mask": mask, "use_cache": False}
            assert_same(fast(**arguments)[0], model(**arguments)[0], 1e-5)
            graphs.append(log.counts["graphs"])
    assert graphs == [1, 2, 2, 2, 2]
    assert log.counts["graph_breaks"] == 0
