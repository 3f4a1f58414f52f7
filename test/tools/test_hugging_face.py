"""Models of a Hugging Face folder: weights that are there, random ones, and inputs that fit."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

from benchmarks.qwen import write  # noqa: E402
from inferno.errors import InputError, OptionError  # noqa: E402
from inferno.tools.check import reference  # noqa: E402
from inferno.tools.cli import main  # noqa: E402
from inferno.tools.expression import read_subject  # noqa: E402
from inferno.tools.hugging_face import make_sizes  # noqa: E402

WIDTH = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {**WIDTH, "vocab_size": 99, "max_position_embeddings": 32, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
VISION = {**WIDTH, "image_size": 16, "patch_size": 8}


def saved(folder, name, config):
    torch.manual_seed(1)
    getattr(transformers, name)(config).save_pretrained(folder)
    return str(folder)


def run(subject):
    with torch.no_grad():
        return subject.model(*subject.args, **subject.kwargs)


def test_a_configuration_alone(tmp_path, capsys):
    write(tmp_path, layers=1, hidden=128)
    subject = read_subject(str(tmp_path), sizes=make_sizes(None, 2, 12))
    assert "random" in capsys.readouterr().err
    assert type(subject.model).__name__ == "Qwen2ForCausalLM" and not subject.model.training
    assert {p.dtype for p in subject.model.parameters()} == {torch.bfloat16}  # as the configuration says
    assert subject.kwargs["input_ids"].shape == (2, 12) and subject.kwargs["use_cache"] is False
    assert run(subject).logits.shape == (2, 12, 1024)
    subject = read_subject(str(tmp_path), sizes=make_sizes("f32", None, None))
    assert {p.dtype for p in subject.model.parameters()} == {torch.float32}
    assert torch.equal(next(subject.model.parameters()), next(read_subject(str(tmp_path), sizes=make_sizes("f32", None, None)).model.parameters()))


def test_weights_that_are_there(tmp_path, capsys):
    folder = saved(tmp_path, "BertForMaskedLM", transformers.BertConfig(**TEXT))
    capsys.readouterr()
    subject = read_subject(folder)
    assert capsys.readouterr().err == ""
    torch.manual_seed(1)
    expected = transformers.BertForMaskedLM(transformers.BertConfig(**TEXT)).state_dict()
    assert subject.model.state_dict().keys() == expected.keys()
    assert all(torch.equal(v, expected[k]) for k, v in subject.model.state_dict().items())
    assert subject.kwargs["input_ids"].shape == (1, 32)  # no longer than its positions


@pytest.mark.parametrize("name, config, inputs", [
    ("T5ForConditionalGeneration", lambda: transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0,
    ), {"input_ids": (2, 9), "decoder_input_ids": (2, 9)}),
    ("ViTModel", lambda: transformers.ViTConfig(**VISION), {"pixel_values": (2, 3, 16, 16)}),
    ("CLIPModel", lambda: transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=16), {
        "input_ids": (2, 9), "pixel_values": (2, 3, 16, 16),
    }),
    ("WhisperForConditionalGeneration", lambda: transformers.WhisperConfig(
        vocab_size=99, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=9, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    ), {"input_features": (2, 8, 18), "decoder_input_ids": (2, 9)}),
    ("Wav2Vec2Model", lambda: transformers.Wav2Vec2Config(
        **WIDTH, vocab_size=32, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    ), {"input_values": (2, 900)}),
])
def test_inputs_that_fit(tmp_path, name, config, inputs):
    folder = saved(tmp_path, name, config())
    sequence = {"Wav2Vec2Model": 900, "WhisperForConditionalGeneration": None}.get(name, 9)
    subject = read_subject(folder, sizes=make_sizes(None, 2, sequence))
    found = {k: tuple(v.shape) for k, v in subject.kwargs.items() if isinstance(v, torch.Tensor)}
    if name.startswith("Whisper"):  # its sound has one length; without --sequence the text is as long as it may be
        inputs = {**inputs, "decoder_input_ids": (2, 32)}
    assert found == inputs
    run(subject)


@pytest.mark.thorough
def test_the_command(tmp_path, capsys):
    write(tmp_path, layers=1, hidden=128)
    assert main(["run", str(tmp_path), "--dtype", "f32", "--sequence", "8"]) == 0
    assert "right; error" in capsys.readouterr().out
    for bad, message in (("--dtype=f31", "unknown dtype 'f31'; the dtypes are float32"), ("--batch=0", "--batch: expected a positive number, got 0")):
        assert main(["run", str(tmp_path), bad]) == 2
        assert message in capsys.readouterr().err
    assert main(["run", str(tmp_path), "--sequence", "200000"]) == 2
    assert "the model's positions end at 131072, got 200000" in capsys.readouterr().err
    assert main(["run", "-c", "torch.relu(torch.randn(3))", "--batch", "2"]) == 2


def test_what_is_no_model(tmp_path):
    with pytest.raises(InputError, match="neither a Python file nor a Hugging Face model"):
        read_subject(str(tmp_path))
    with pytest.raises(OptionError, match="unknown dtype"):
        make_sizes("half", None, None)


def test_a_large_model_in_float64_without_a_copy(tmp_path, monkeypatch):
    write(tmp_path, layers=1, hidden=128)
    subject = read_subject(str(tmp_path), sizes=make_sizes("f32", 1, 6))
    expected = reference(subject.model, (), subject.kwargs)
    monkeypatch.setattr("inferno.tools.check._LARGE", 0)
    found = reference(subject.model, (), subject.kwargs)
    assert found.logits.dtype == torch.float64
    error = (found.logits - expected.logits).norm() / expected.logits.norm()
    assert error < 1e-6  # angles of the positions are float32 in one, float64 in the other
    assert {p.dtype for p in subject.model.parameters()} == {torch.float32}
