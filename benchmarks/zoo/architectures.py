"""Architectures of `transformers`: the class, a small configuration, and what goes in.

Weights are random; nothing is downloaded. A configuration starts from `SMALL`; sizes that an
architecture names otherwise are in its line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

VOCABULARY, BATCH, LENGTH, SIDE = 99, 2, 16, 32
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip

Inputs = dict[str, Any]


def tokens(length: int = LENGTH) -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length))


def padding(length: int = LENGTH) -> Tensor:
    """A mask whose second row ends early."""
    mask = torch.ones(BATCH, length, dtype=torch.long)
    mask[1, length - 3 :] = 0
    return mask


def encoder() -> Inputs:
    return {"input_ids": tokens(), "attention_mask": padding(), "labels": tokens()}


def classifier() -> Inputs:
    labels = torch.randint(2, (BATCH,))
    return {"input_ids": tokens(), "attention_mask": padding(), "labels": labels}


def answers() -> Inputs:
    ends = {f"{end}_positions": torch.randint(LENGTH, (BATCH,)) for end in ("start", "end")}
    return {"input_ids": tokens(), "attention_mask": padding(), **ends}


def unmasked() -> Inputs:
    return {"input_ids": tokens(), "labels": tokens()}


def layout() -> Inputs:
    corner = torch.randint(0, 500, (BATCH, LENGTH, 2))
    return {**encoder(), "bbox": torch.cat([corner, corner + 10], dim=-1)}


def seq2seq() -> Inputs:
    return {"input_ids": tokens(), "attention_mask": padding(), "labels": tokens(8)}


def images(channels: int = 3) -> Tensor:
    return torch.randn(BATCH, channels, SIDE, SIDE)


def image() -> Inputs:
    return {"pixel_values": images(), "labels": torch.randint(2, (BATCH,))}


def segments() -> Inputs:
    return {"pixel_values": images(), "labels": torch.randint(2, (BATCH, SIDE, SIDE))}


def pairs() -> Inputs:
    text = {"input_ids": tokens(), "attention_mask": padding()}
    return {**text, "pixel_values": images(), "return_loss": True}


def waves() -> Inputs:
    return {"input_values": torch.randn(BATCH, 2000), "labels": torch.randint(2, (BATCH,))}


def transcript() -> Inputs:
    return {"input_values": torch.randn(BATCH, 2000), "labels": torch.randint(3, 30, (BATCH, 4))}


def features() -> Inputs:
    return {"input_features": torch.randn(BATCH, 16, 60), "labels": tokens(8)}


def speech() -> Inputs:
    spectrum = torch.randn(BATCH, 40, 16)
    mask = torch.ones(BATCH, 40, dtype=torch.long)
    return {"input_features": spectrum, "attention_mask": mask, "labels": tokens(8)}


def glyphs() -> Inputs:
    return {"encoder_hidden_states": torch.randn(BATCH, 6, 32), **unmasked()}


def bytes_in() -> Inputs:
    return {"inputs": tokens(), "attention_mask": padding(), "labels": tokens()}


@dataclass(frozen=True)
class Architecture:
    """A class of `transformers`, random inputs with labels for it, and changes of `SMALL`."""

    head: str
    inputs: Callable[[], Inputs]
    changes: dict[str, Any]
    decodes: bool = False

    def make(self) -> torch.nn.Module:
        """A model with random weights."""
        cls = getattr(transformers, self.head)
        return cls(configuration(cls.config_class, self.changes))


def configuration(cls: Callable[..., Any], changes: dict[str, Any]) -> Any:
    """A small configuration, its parts small too, without the options that are changed to None."""
    parts = {name: {**SMALL, **part} for name, part in changes.items() if name.endswith("_config")}
    every = {**({} if parts else SMALL), **changes, **parts}
    return cls(**{name: value for name, value in every.items() if value is not None})


def model(head: str, inputs: Callable[[], Inputs] = encoder, **changes: Any) -> Architecture:
    return Architecture(head, inputs, changes)


def decoder(head: str, inputs: Callable[[], Inputs] = encoder, **changes: Any) -> Architecture:
    """A model that can go on from a cache of keys and values."""
    return Architecture(head, inputs, changes, decodes=True)


GROUPED = {"num_key_value_heads": 2}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "decoder_start_token_id": 2, "num_hidden_layers": 2,
}  # fmt: skip
IMAGE = {"image_size": SIDE, "patch_size": 8, "num_labels": 2}
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 2}
WAVE = {
    "conv_dim": [8, 8, 8], "conv_kernel": [8, 3, 3], "conv_stride": [4, 2, 2], "vocab_size": 30,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_length": 2,
    "classifier_proj_size": 16, "num_feat_extract_layers": 3,
}  # fmt: skip

ARCHITECTURES = [
    # Encoders of text
    model("BertForMaskedLM"),
    model("RobertaForSequenceClassification", classifier),
    model("CamembertForMaskedLM"),
    model("XLMRobertaForMaskedLM"),
    model("AlbertForMaskedLM", embedding_size=16),
    model("DistilBertForQuestionAnswering", answers),
    model("ElectraForTokenClassification", embedding_size=16, num_labels=VOCABULARY),
    model("DebertaForMaskedLM", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    model("DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    model("MPNetForMaskedLM"),
    model("ConvBertForMaskedLM", embedding_size=32),
    model("FunnelForMaskedLM", num_hidden_layers=None, block_sizes=[1, 1], d_model=32,
          n_head=4, d_head=8, d_inner=48),
    model("FNetForMaskedLM", unmasked),
    model("BigBirdForMaskedLM", attention_type="original_full"),
    model("BigBirdForQuestionAnswering", answers, block_size=2, num_random_blocks=1),
    model("LongformerForMaskedLM", attention_window=4),
    model("LayoutLMForTokenClassification", layout, num_labels=VOCABULARY,
          max_2d_position_embeddings=1024),
    model("NystromformerForMaskedLM", unmasked, segment_means_seq_len=16, num_landmarks=4),
    model("RoFormerForMaskedLM", embedding_size=32),
    model("SqueezeBertForMaskedLM", embedding_size=32),
    model("MobileBertForMaskedLM", embedding_size=32, true_hidden_size=32,
          intra_bottleneck_size=32),
    model("MegatronBertForMaskedLM"),
    model("ModernBertForMaskedLM", local_attention=4),
    model("XLMWithLMHeadModel", emb_dim=32, n_layers=2, n_heads=4),
    model("XLNetLMHeadModel", max_position_embeddings=None, d_model=32, n_layer=2,
          n_head=4, d_inner=48),
    model("PerceiverForMaskedLM", bytes_in, max_position_embeddings=LENGTH, num_latents=8,
          d_latents=32, d_model=32, num_blocks=1, num_self_attends_per_block=2,
          num_self_attention_heads=4, num_cross_attention_heads=4, qk_channels=32, v_channels=32),
    model("ReformerForMaskedLM", is_decoder=False, axial_pos_shape=[4, 4],
          axial_pos_embds_dim=[16, 16], attn_layers=["local", "lsh"], attention_head_size=8,
          feed_forward_size=48, num_buckets=2, local_attn_chunk_length=4,
          lsh_attn_chunk_length=4, hash_seed=0, hidden_dropout_prob=0.0,
          local_attention_probs_dropout_prob=0.0, lsh_attention_probs_dropout_prob=0.0),
    # Decoders of text
    decoder("GPT2LMHeadModel"),
    model("OpenAIGPTLMHeadModel"),
    decoder("GPTNeoForCausalLM", num_layers=2, num_heads=4,
            attention_types=[[["global", "local"], 1]]),
    decoder("GPTJForCausalLM", rotary_dim=4),
    decoder("GPTNeoXForCausalLM"),
    decoder("GPTBigCodeForCausalLM"),
    decoder("CodeGenForCausalLM", rotary_dim=4),
    decoder("OPTForCausalLM", word_embed_proj_dim=32, ffn_dim=48),
    decoder("BloomForCausalLM"),
    decoder("MptForCausalLM", d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
    decoder("LlamaForCausalLM", **GROUPED),
    decoder("MistralForCausalLM", **GROUPED, sliding_window=8),
    decoder("MixtralForCausalLM", **GROUPED, num_local_experts=4),
    decoder("Qwen2ForCausalLM", **GROUPED),
    decoder("Qwen3ForCausalLM", **GROUPED, head_dim=8),
    decoder("Qwen3MoeForCausalLM", **GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2,
            moe_intermediate_size=16),
    decoder("GemmaForCausalLM", **GROUPED, head_dim=8),
    decoder("Gemma2ForCausalLM", **GROUPED, head_dim=8, sliding_window=8),
    decoder("Gemma3ForCausalLM", **GROUPED, head_dim=8, sliding_window=8),
    decoder("PhiForCausalLM"),
    decoder("Phi3ForCausalLM", **GROUPED),
    decoder("FalconForCausalLM"),
    decoder("StableLmForCausalLM", **GROUPED),
    decoder("CohereForCausalLM", **GROUPED),
    decoder("OlmoForCausalLM", **GROUPED),
    decoder("GraniteForCausalLM", **GROUPED),
    decoder("GptOssForCausalLM", **GROUPED, head_dim=8, num_local_experts=4),
    decoder("DeepseekV3ForCausalLM", n_routed_experts=4, n_group=2, topk_group=1, q_lora_rank=16,
            num_experts_per_tok=2, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
            v_head_dim=8, moe_intermediate_size=16, first_k_dense_replace=1),
    model("MambaForCausalLM", unmasked, state_size=4),
    model("Mamba2ForCausalLM", unmasked, state_size=4, num_heads=8, head_dim=8, n_groups=2,
          chunk_size=8),
    model("RwkvForCausalLM", unmasked, attention_hidden_size=32, context_length=64),
    decoder("TrOCRForCausalLM", glyphs, d_model=32, decoder_layers=2, decoder_attention_heads=4,
            decoder_ffn_dim=48, cross_attention_hidden_size=32),
    # From sequence to sequence
    decoder("T5ForConditionalGeneration", seq2seq, **T5, decoder_start_token_id=0),
    decoder("MT5ForConditionalGeneration", seq2seq, **T5, decoder_start_token_id=0),
    model("SwitchTransformersForConditionalGeneration", seq2seq, **T5, num_experts=4,
          decoder_start_token_id=0),
    decoder("BartForConditionalGeneration", seq2seq, **BART),
    decoder("MBartForConditionalGeneration", seq2seq, **BART),
    decoder("PegasusForConditionalGeneration", seq2seq, **BART),
    decoder("MarianMTModel", seq2seq, **BART, decoder_vocab_size=VOCABULARY),
    decoder("M2M100ForConditionalGeneration", seq2seq, **BART),
    decoder("BlenderbotForConditionalGeneration", seq2seq, **BART),
    decoder("LEDForConditionalGeneration", seq2seq, **BART, attention_window=4,
            max_encoder_position_embeddings=64, max_decoder_position_embeddings=64),
    decoder("WhisperForConditionalGeneration", features, **BART, num_mel_bins=16,
            max_source_positions=30, max_target_positions=32),
    decoder("Speech2TextForConditionalGeneration", speech, **BART, input_feat_per_channel=16,
            conv_channels=16, max_source_positions=64, max_target_positions=32),
    # Images
    model("ViTForImageClassification", image, **IMAGE),
    model("DeiTForImageClassification", image, **IMAGE),
    model("BeitForImageClassification", image, **IMAGE),
    model("Dinov2ForImageClassification", image, **IMAGE),
    model("SwinForImageClassification", image, image_size=SIDE, patch_size=2, window_size=4,
          embed_dim=8, depths=[1, 1], num_heads=[2, 2], num_labels=2, num_hidden_layers=None,
          num_attention_heads=None),
    model("ConvNextForImageClassification", image, **STAGES, num_stages=2),
    model("ResNetForImageClassification", image, **STAGES, embedding_size=8),
    model("RegNetForImageClassification", image, **STAGES, embedding_size=8, groups_width=4,
          num_hidden_layers=None),
    model("MobileNetV2ForImageClassification", image, image_size=SIDE, depth_multiplier=0.25,
          num_labels=2),
    model("EfficientNetForImageClassification", image, image_size=SIDE, width_coefficient=0.25,
          depth_coefficient=0.25, hidden_dim=320, num_labels=2),
    model("PoolFormerForImageClassification", image, depths=[1, 1, 1, 1],
          hidden_sizes=[8, 8, 16, 16], num_labels=2),
    model("SegformerForSemanticSegmentation", segments, depths=[1, 1, 1, 1],
          hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16,
          num_labels=2),
    model("CLIPModel", pairs, text_config={}, vision_config=IMAGE, projection_dim=16),
    model("SiglipModel", pairs, text_config={"projection_size": 32}, vision_config=IMAGE),
    # Sound
    model("Wav2Vec2ForCTC", transcript, **WAVE),
    model("HubertForSequenceClassification", waves, **WAVE, num_labels=2),
    model("WavLMForCTC", transcript, **WAVE),
]  # fmt: skip
