"""Qwen2.5-7B at its real size, without its weights: writes a model folder, for ``inferno run`` to take.

    python -m benchmarks.qwen /tmp/qwen2.5-7b
    inferno run /tmp/qwen2.5-7b --dtype bf16 --sequence 512

``--layers`` and ``--hidden`` make a smaller one of its kind.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

# The configuration that Qwen/Qwen2.5-7B has on the hub.
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643,
    "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 131072,
    "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": False, "dtype": "bfloat16", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 152064,
}


def write(folder: Path, layers: int | None = None, hidden: int | None = None) -> None:
    """Write the folder: a configuration and no weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(smaller(layers, hidden), indent=2))


def smaller(layers: int | None = None, hidden: int | None = None) -> dict[str, Any]:
    """The configuration with fewer layers or columns; ``hidden`` must be a multiple of 128, the size of a head."""
    config = dict(CONFIG)
    if layers is not None:
        config["num_hidden_layers"] = config["max_window_layers"] = layers
    if hidden is not None:
        heads = hidden // 128
        groups = next(n for n in (4, 2, 1) if heads % n == 0)
        config |= {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_attention_heads": heads, "num_key_value_heads": groups, "vocab_size": 1024,
                   "bos_token_id": 1, "eos_token_id": 2}
    return config


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.qwen", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--hidden", type=int)
    options = parser.parse_args(argv)
    write(options.folder, options.layers, options.hidden)
    print(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
