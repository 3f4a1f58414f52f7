"""From a model to the ``torch`` stage."""

from typing import Any

from inferno.capture.capture import Captured, Exported, capture, export_model
from inferno.capture.signature import Argument, Frozen, Result, Signature, View

__all__ = ["Argument", "Captured", "Exported", "Frozen", "Result", "Signature", "View", "capture", "explain_failure", "export_model"]


def __getattr__(name: str) -> Any:
    # Lazily, since a package, which needs signatures, loads without MLIR.
    if name == "explain_failure":
        from inferno.capture.failure import explain_failure
        return explain_failure
    raise AttributeError(f"module 'inferno.capture' has no attribute {name!r}")
