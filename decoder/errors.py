"""Typed errors of the decoder. Each says what was wrong, where, and what to do."""

from __future__ import annotations


class DecoderError(Exception):
    """Base of every error this package raises on purpose."""


class ModelError(DecoderError):
    """A model file is missing, truncated or contradicts itself."""


class UnsupportedModelError(ModelError):
    """A model asks for something this engine does not compute; the message names the key."""


class KernelError(DecoderError):
    """The native kernels could not be built or loaded, or were handed arrays they can't take."""


class SelfCheckError(DecoderError):
    """The machine does not compute what NUMERICS.md defines; the message says what failed."""


class RequestError(DecoderError):
    """One request can't be decoded as asked (empty, too long, foreign token, nothing allowed)."""


class BudgetError(RequestError):
    """A text can't be ended within the tokens that the request allows."""


class RowFaultError(DecoderError):
    """The model produced a non-finite value for one request; its neighbours are untouched."""


class PassError(DecoderError):
    """A forward pass broke off; the requests that were in it have no result."""


class CapacityError(DecoderError):
    """The engine's declared slots or KV memory are all in use."""
