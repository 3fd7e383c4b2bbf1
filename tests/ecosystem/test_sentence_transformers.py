"""sentence-transformers: `encode` of a compiled model gives the same embeddings."""

import numpy as np
import pytest
import torch

import minitorch2
from minitorch2 import stages

transformers = pytest.importorskip("transformers")
sentences = pytest.importorskip("sentence_transformers")
models = pytest.importorskip("sentence_transformers.models")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog", "sat", "on", "the", "mat"]
TEXTS = ["the cat sat on the mat", "a dog", "the dog sat on a cat on a mat", "cat"]


@pytest.mark.slow
def test_sentences_of_other_lengths_compile_once_more(tmp_path):
    torch.manual_seed(0)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    sizes = {"vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 64}
    config = transformers.BertConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path)
    parts = models.Transformer(str(tmp_path)), models.Pooling(32)
    model = sentences.SentenceTransformer(modules=parts, device="cpu")
    with stages.collect() as log:
        fast = minitorch2.compile(model)
        given = [fast.encode(TEXTS), *map(fast.encode, TEXTS)]
    for each, wanted in zip(given, [model.encode(TEXTS), *map(model.encode, TEXTS)], strict=True):
        np.testing.assert_allclose(each, wanted, atol=1e-5)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (2, 0)
