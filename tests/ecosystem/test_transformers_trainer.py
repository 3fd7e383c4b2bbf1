"""The Trainer of transformers: it trains, evaluates and saves a compiled model."""

import pytest
import torch

import minitorch2
from minitorch2 import stages

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


def new_model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2}
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **rates))


def train(model, folder):
    """The losses of training and of evaluation; the folder holds the saved model."""
    rows = torch.randint(64, (8, 12), generator=torch.Generator().manual_seed(0))
    data = [{"input_ids": row, "labels": row} for row in rows]
    settings = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, num_train_epochs=2, report_to=[],
        logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(model=model, args=settings, train_dataset=data)
    trainer.train()
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    losses.append(trainer.evaluate(data)["eval_loss"])
    trainer.save_model(folder)
    return losses


@pytest.mark.slow
def test_a_compiled_model_trains_and_is_saved_as_it_was(tmp_path):
    with stages.collect() as log:
        losses = train(minitorch2.compile(new_model()), tmp_path / "compiled")
    plain = new_model()
    assert losses == pytest.approx(train(plain, tmp_path / "plain"), abs=1e-4)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (2, 0)  # training, evaluation
    loaded = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "compiled")
    torch.testing.assert_close(loaded.state_dict(), plain.state_dict(), rtol=1e-3, atol=1e-4)


def test_the_arguments_take_backends_of_accelerate_only(tmp_path):
    settings = transformers.TrainingArguments(
        output_dir=tmp_path, torch_compile_backend="minitorch2", use_cpu=True, report_to=[]
    )
    with pytest.raises(ValueError, match="MINITORCH2"):
        transformers.Trainer(model=new_model(), args=settings)
