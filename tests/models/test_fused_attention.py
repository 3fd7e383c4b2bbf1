"""Attention as the models of transformers write it becomes one operator a layer."""

import pytest
import torch

import minitorch2
from minitorch2 import stages

transformers = pytest.importorskip("transformers")

EAGER = {"vocab_size": 50, "attn_implementation": "eager"}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16, **EAGER}  # fmt: skip
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def bert():
    return transformers.BertModel(transformers.BertConfig(**SMALL, **STILL), False)


def gpt2():
    off = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "use_cache": False}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, **off, **ends, **EAGER)
    return transformers.GPT2Model(config)


def llama():
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=1, use_cache=False)
    return transformers.LlamaModel(config)


def t5():
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, dropout_rate=0.0, **EAGER
    )
    return transformers.T5EncoderModel(config)


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "t5": t5}


def run(model, function, train):
    ids = torch.arange(24).reshape(2, 12)
    with torch.set_grad_enabled(train):
        hidden = function(input_ids=ids).last_hidden_state
        if not train:
            return [hidden]
        hidden.square().sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return [hidden.detach(), *gradients]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_attention_is_fused(name, train):
    model = MODELS[name]().train(train)
    expected = run(model, model, train)
    with stages.collect() as log:
        found = run(model, minitorch2.compile(model, backend="aot_eager"), train)
    fused = sum(text.count("--> scaled_dot_product") for text in log.texts("rewrites.txt"))
    assert (fused, log.counts["graphs"]) == (2, 1)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
