"""peft: adapters may be switched, merged and disabled between calls."""

import contextlib

import pytest
import torch

import minitorch2
from minitorch2 import stages

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)
    lora = {"target_modules": ["q_proj", "v_proj"], "init_lora_weights": False}
    base = transformers.LlamaForCausalLM(config)
    made = peft.get_peft_model(base, peft.LoraConfig(r=4, **lora))
    made.add_adapter("second", peft.LoraConfig(r=8, **lora))
    return made


IDS = torch.randint(64, (2, 9), generator=torch.Generator().manual_seed(0))


def step(model, forward):
    """The loss and all gradients of one step."""
    model.zero_grad()
    loss = forward(input_ids=IDS, labels=IDS).loss
    if loss.requires_grad:
        loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


@contextlib.contextmanager
def merged(model):
    model.merge_adapter()
    yield
    model.unmerge_adapter()


@pytest.mark.slow
def test_adapters_change_between_calls(model):
    fast = minitorch2.compile(model)

    def check():
        given = [value.clone() for value in step(model, fast)]
        torch.testing.assert_close(given, step(model, model), rtol=1e-4, atol=1e-5)
        return len(given)

    with stages.collect() as log:
        assert check() == 5  # the loss, and two gradients of each of two adapters
        for name in ("second", "default", "second"):
            model.set_adapter(name)
            assert check() == 5
        model.base_model.set_adapter(["default", "second"])
        assert check() == 9
        model.set_adapter("default")
        with merged(model):
            assert check() == 1
        with model.disable_adapter():
            assert check() == 1
        known = log.counts["graphs"]
        assert check() == 5
    assert log.counts["graph_breaks"] == 0
    assert log.counts["graphs"] == known, "the adapter was compiled before"


def test_a_merged_model_is_one_graph(model):
    whole = model.merge_and_unload().eval()
    fast = minitorch2.compile(whole, fullgraph=True)
    with torch.no_grad():
        given, wanted = fast(input_ids=IDS).logits, whole(input_ids=IDS).logits
    torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)
