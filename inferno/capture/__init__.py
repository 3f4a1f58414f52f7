"""From a model to the ``torch`` stage."""

from inferno.capture.capture import Captured, capture
from inferno.capture.failure import explain_failure
from inferno.capture.signature import Argument, Result, Signature

__all__ = ["Argument", "Captured", "Result", "Signature", "capture", "explain_failure"]
