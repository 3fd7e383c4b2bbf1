"""diffusers: the network of a pipeline is compiled once for all its steps."""

import numpy as np
import pytest
import torch

import minitorch2
from minitorch2 import stages

diffusers = pytest.importorskip("diffusers")


def images(batch, prepare=lambda network: network):
    torch.manual_seed(0)
    network = diffusers.UNet2DModel(
        sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), attention_head_dim=4,
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    pipe = diffusers.DDIMPipeline(network, diffusers.DDIMScheduler(num_train_timesteps=20))
    pipe.unet = prepare(pipe.unet)
    pipe.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    kinds = {"output_type": "np", "generator": generator}
    return pipe(batch_size=batch, num_inference_steps=4, **kinds).images


@pytest.mark.slow
def test_a_pipeline_compiles_its_network_once():
    with stages.collect() as log:
        given = images(2, minitorch2.compile)
    np.testing.assert_allclose(given, images(2), atol=1e-5)
    assert (log.counts["graphs"], log.counts["graph_breaks"]) == (1, 0)
