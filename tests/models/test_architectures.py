"""A few architectures of the zoo: counts of graphs and breaks, the numbers of eager.

All of them are checked by `python -m benchmarks table1`.
"""

import pytest
import torch

import minitorch2
from minitorch2 import config, stages

pytest.importorskip("transformers")

from benchmarks.zoo.observe import difference, observe
from benchmarks.zoo.programs import programs

PROGRAMS = {program.name: program for program in programs()}
COUNTS = {
    "BertForMaskedLM, training": (1, 0),
    "BartForConditionalGeneration, inference": (1, 0),  # copies and validates its configuration
    "DebertaForMaskedLM, training": (1, 0),  # clamps between scalars computed of sizes
    "LlamaForCausalLM, training": (1, 0),
    "LlamaForCausalLM, decoding": (1, 0),  # writes to the cache that it is given
    "LongformerForMaskedLM, inference": (4, 3),  # reads whether there is global attention
    "T5ForConditionalGeneration, decoding": (1, 0),
    "ViTForImageClassification, inference": (1, 0),
    "LSTM": (1, 0),
    "TransformerDecoder": (1, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_architecture(name):
    program = PROGRAMS[name]
    model = program.build()
    expected = observe(program, model, model, seed=1)
    model = program.build()
    with config.patch(suppress_errors=False), stages.collect() as log:
        compiled = minitorch2.compile(model, backend="eager")
        assert difference(observe(program, model, compiled, seed=1), expected) == ""
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == COUNTS[name]
    assert log.counts["frames_as_is"] == 0


def test_observations_differ_where_anything_differs():
    program = PROGRAMS["Linear"]
    model = program.build()
    expected = observe(program, model, model, seed=1)
    doubled = observe(program, model, lambda x: model(x) * (1 + 1e-3), seed=1)
    assert difference(doubled, expected).startswith("output")
    halved = {name: t / 2 if name.startswith("gradient") else t for name, t in expected.items()}
    assert difference(halved, expected).startswith("gradient")
    assert torch.is_tensor(expected["gradient of weight"])
