"""A Hugging Face model, by id or by folder, and inputs for it.

Weights that are there are loaded, as safetensors where the model has them; a folder with a configuration alone gives a model of
random weights.  Those are made on the device and in the dtype asked for, so that a model needs no more memory than its weights.
"""

import inspect
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from inferno.errors import InputError, OptionError

DTYPES = {
    "float32": torch.float32, "f32": torch.float32, "bfloat16": torch.bfloat16, "bf16": torch.bfloat16, "float16": torch.float16,
    "f16": torch.float16, "float64": torch.float64, "f64": torch.float64,
}
_SEQUENCE = 128  # tokens, if no number is asked for
_SAMPLES = 16000  # a second of sound


@dataclass(frozen=True)
class Sizes:
    """What the command line says of a model's inputs and weights; None is the model's own way."""

    dtype: torch.dtype | None = None
    batch: int | None = None
    sequence: int | None = None


def make_sizes(dtype: str | None, batch: int | None, sequence: int | None) -> Sizes:
    """Sizes of a command line's words; OptionError for a dtype that there is not, or a size that is not positive."""
    if dtype is not None and dtype not in DTYPES:
        raise OptionError(f"unknown dtype {dtype!r}; the dtypes are {', '.join(DTYPES)}")
    for name, size in (("batch", batch), ("sequence", sequence)):
        if size is not None and size < 1:
            raise OptionError(f"--{name}: expected a positive number, got {size}")
    return Sizes(DTYPES[dtype] if dtype else None, batch, sequence)


def load_model(name: str, sizes: Sizes, device: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model on ``device``, in eval mode, and keyword arguments to call it with.  InputError where there is none of that name."""
    if not os.path.exists(name) and (name.startswith(("/", ".", "~")) or name.count("/") > 1):  # an id is NAME or OWNER/NAME
        raise InputError(f"{name}: no such file or folder; expected file.py:Model, or a Hugging Face model's id or folder")
    try:
        import transformers
    except ImportError as error:
        raise InputError(f"{name!r} is no file; for Hugging Face models `pip install transformers`") from error
    try:
        config = transformers.AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"{name!r} is neither a Python file nor a Hugging Face model: {error}") from error
    kind = next((c for n in config.architectures or () if (c := getattr(transformers, n, None)) is not None), None)
    dtype = sizes.dtype or config.dtype or torch.float32
    with _quiet():
        model = _with_weights(kind or transformers.AutoModel, name, dtype)
    if model is None:
        print(f"{name} holds no weights: they are random", file=sys.stderr)
        with torch.device(device):
            model = kind._from_config(config, dtype=dtype) if kind else transformers.AutoModel.from_config(config, dtype=dtype)
    model.eval().to(device)
    return model, _inputs(model, sizes, torch.device(device), dtype)


def _with_weights(kind: Any, name: str, dtype: torch.dtype) -> torch.nn.Module | None:
    """The model with its weights; None if there are none."""
    try:
        return kind.from_pretrained(name, dtype=dtype)
    except OSError:  # what transformers raises where it finds no file of weights
        return None


@contextmanager
def _quiet() -> Any:
    """Without progress bars: stdout and stderr are the command's."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _inputs(model: torch.nn.Module, sizes: Sizes, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Random inputs, by what the model's ``forward`` takes and its configuration says."""
    config, names = model.config, set(inspect.signature(model.forward).parameters)
    main, batch = getattr(model, "main_input_name", "input_ids"), sizes.batch or 1
    made: dict[str, Any] = {}
    if main == "pixel_values" or ("pixel_values" in names and hasattr(config, "vision_config")):
        made["pixel_values"] = torch.randn(batch, *_image(getattr(config, "vision_config", config)), device=device).to(dtype)
    if main == "input_values":
        made[main] = torch.randn(batch, sizes.sequence or _SAMPLES, device=device).to(dtype)
    elif main == "input_features":
        length = sizes.sequence or 2 * getattr(config, "max_source_positions", _SEQUENCE)
        made[main] = torch.randn(batch, config.num_mel_bins, length, device=device).to(dtype)
    elif main == "input_ids":
        made[main] = _tokens(getattr(config, "text_config", config), sizes, batch, device)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        made["decoder_input_ids"] = _tokens(config, sizes, batch, device)
    if "use_cache" in names:
        made["use_cache"] = False
    return made


def _tokens(config: Any, sizes: Sizes, batch: int, device: torch.device) -> torch.Tensor:
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "max_target_positions", None) or _SEQUENCE
    if sizes.sequence is not None and sizes.sequence > limit:
        raise OptionError(f"--sequence: the model's positions end at {limit}, got {sizes.sequence}")
    return torch.randint(config.vocab_size, (batch, sizes.sequence or min(_SEQUENCE, limit)), device=device)


def _image(config: Any) -> tuple[int, int, int]:
    size = getattr(config, "image_size", 224)
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    return getattr(config, "num_channels", 3), height, width
