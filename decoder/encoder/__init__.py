"""Sentence embeddings in the same integer-exact numerics as the language model."""

from decoder.encoder.bert import Encoder, load_encoder

__all__ = ["Encoder", "load_encoder"]
