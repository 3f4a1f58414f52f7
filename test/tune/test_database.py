"""Measured schedules on disk: kept whole, read by later compiles, and part of what compiled programs are kept by."""

import json
import logging
import re
import threading
from pathlib import Path

import pytest
import torch
from checks import in_threads, scheduled

import inferno
from inferno.capture import capture
from inferno.errors import OptionError, TuneError
from inferno.mlir import ir, idle_context
from inferno.runtime import database
from inferno.runtime.database import Entry, add, answers, known_schedules, own_folder, read
from inferno.runtime.workers import pool as workers
from inferno.schedule.assign import generators, kernels, read_known
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.known import key_of
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.target import find_target
from inferno.tools.cli import main

TARGET = find_target("sm_90a")
SLOWER = (
    '{across = 1 : i64, backwards = false, generator = "elementwise", threads = 64 : i64, tile = 0 : i64, unroll = 2 : i64, vector = 1 : i64, windows = false}'
)


def entry(schedule=SLOWER, time=12.5, kernel="exp", model_time=25.0, runners=()):
    return Entry(schedule, time, '{generator = "elementwise"}', model_time, ((schedule, 26.0), *runners), 7, kernel, "abc", 1.7e9)


@pytest.fixture(autouse=True)
def folder(cache_folder, tmp_path, monkeypatch):
    """No results come with Inferno, and there is a cuBLASLt; the user's folder."""
    monkeypatch.setattr(database, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(database, "gpus_of", lambda target: [])
    monkeypatch.setattr(database, "library_path", lambda: "libcublasLt.so")
    return own_folder()


def test_entries_come_back(folder):
    found = {"a" * 40: entry(), "b" * 40: entry(kernel="other")}
    add(folder / "G.json", "sm_90a", found)
    add(folder / "G.json", "sm_80", {"c" * 40: entry()})
    assert read(folder / "G.json") == {"sm_90a": found, "sm_80": {"c" * 40: entry()}}
    assert known_schedules(TARGET) == dict.fromkeys(found, SLOWER) and known_schedules(find_target("cpu")) == {}
    assert answers(["a" * 40, "d" * 40], TARGET) == {"a" * 40: SLOWER, "d" * 40: ""}


def test_many_write_at_once_and_readers_see_whole_files(folder):
    path, done = folder / "G.json", threading.Event()
    seen = []

    def work(number):
        if number == 0:
            while not done.wait(0.001):
                seen.append(len(read(path).get("sm_90a", {})))
            return
        for i in range(10):
            add(path, "sm_90a", {f"{number:020x}{i:020x}": entry()})

    add(path, "sm_90a", {"0" * 40: entry()})
    writers = threading.Thread(target=lambda: (in_threads(work, range(1, 5)), done.set()))
    writers.start()
    work(0)
    writers.join()
    assert len(read(path)["sm_90a"]) == 41 and seen == sorted(seen) and min(seen) >= 1
    assert not list(folder.glob("*.tmp"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "entries": {}}', '{"format": 1, "entries": {"sm_90a": {"k": {"schedule": 1}}}}'])
def test_a_damaged_file_is_missing(folder, text, caplog):
    folder.mkdir(parents=True)
    (folder / "G.json").write_text(text)
    assert known_schedules(TARGET) == {} and "are not used" in caplog.text
    add(folder / "G.json", "sm_90a", {"a" * 40: entry()})
    assert len(known_schedules(TARGET)) == 1


def test_the_users_own_go_before_those_that_come_with_inferno(folder, tmp_path):
    add(tmp_path / "shipped" / "G.json", "sm_90a", {"a" * 40: entry("shipped"), "b" * 40: entry("shipped")})
    add(folder / "G.json", "sm_90a", {"a" * 40: entry("own")})
    assert known_schedules(TARGET) == {"a" * 40: "own", "b" * 40: "shipped"}


def test_a_gpu_that_is_here_has_its_own_before_those_of_others(folder, tmp_path, monkeypatch):
    add(tmp_path / "shipped" / "One.json", "sm_90a", {"a" * 40: entry("one")})
    add(folder / "Two.json", "sm_90a", {"a" * 40: entry("two"), "b" * 40: entry("two")})
    monkeypatch.setattr(database, "gpus_of", lambda target: [torch.device("cuda", 0)])
    monkeypatch.setattr(database, "multiprocessors", lambda device: TARGET.multiprocessors)
    monkeypatch.setattr(database, "gpu_name", lambda device: "One")
    assert known_schedules(TARGET) == {"a" * 40: "one", "b" * 40: "two"}
    assert known_schedules(TARGET, elsewhere=False) == {"a" * 40: "one"}
    monkeypatch.setattr(database, "gpu_name", lambda device: "Three")
    assert set(known_schedules(TARGET)) == {"a" * 40, "b" * 40} and known_schedules(TARGET, elsewhere=False) == {}
    monkeypatch.setattr(database, "multiprocessors", lambda device: TARGET.multiprocessors - 18)  # others' blocks do not fill it in the same way
    assert known_schedules(TARGET) == {}


def model(x):
    return torch.exp(x) * 3


def compiled():
    return inferno.compile(model, torch.randn(300, 100), target="sm_90a")


def chosen():
    """Not from the cache, and without its kernel's code."""
    return scheduled(model, (torch.randn(300, 100),))


def test_what_is_known_is_used_and_a_new_result_recompiles(folder, monkeypatch):
    first = compiled()
    key, said = next(iter(first.program.known.items()))
    assert said == "" and SLOWER not in first.ir("scheduled")
    add(folder / "G.json", "sm_90a", {key: entry()})
    second = compiled()
    assert SLOWER in second.ir("scheduled") and second.program.known == {key: SLOWER}
    assert "block = [64, 1, 1]" in second.ir("gpu")
    assert "tuned: 1 of 1 kernels" in str(second.explain()) and "tuned" not in str(first.explain())
    monkeypatch.setenv("INFERNO_TUNED", "0")
    assert compiled().ir("scheduled") == first.ir("scheduled")
    monkeypatch.delenv("INFERNO_TUNED")
    assert compiled().ir("scheduled") == second.ir("scheduled")
    # A result for another kernel changes nothing: the program comes from the cache.
    add(folder / "G.json", "sm_90a", {"f" * 40: entry()})
    monkeypatch.setattr(workers.Pool, "submit", lambda *args, **kwargs: pytest.fail("a worker was asked"))
    assert compiled().ir("scheduled") == second.ir("scheduled")


@pytest.mark.thorough
def test_what_is_known_is_in_the_order_of_the_program():
    def many(*tensors):
        return tuple(torch.exp(t) for t in tensors)

    def keys(*sizes):
        text, _ = workers.pool().run("test", "lower_to_linalg", text=capture(many, tuple(torch.randn(8, n) for n in sizes)).text)
        return list(workers.pool().run("test", "fuse", text=text, target="sm_90a").keys.values())

    found = keys(*range(1, 13))
    assert len(found) == 12 and found == [keys(n)[0] for n in range(1, 13)]


def test_the_next_best_takes_the_place_of_what_cannot_be_had(folder):
    """A library that an option forbids, a schedule of another version; but nothing that is slower than the model's choice."""
    def schedule(**options):
        made = scheduled(torch.matmul, (torch.randn(64, 96).bfloat16(), torch.randn(96, 128).bfloat16()), **options)
        return made.ir("scheduled"), next(iter(made.known))

    library, ours = '{algorithm = 2 : i64, generator = "cublaslt", workspace = 33554432 : i64}', 'tile_m = 64 : i64, tile_n = 64 : i64'
    plain, key = schedule()
    assert 'generator = "wgmma"' in plain and ours not in plain
    with idle_context():
        found = str(to_attribute(Wgmma(64, 64, 6, 1)))
    assert ours in found
    add(folder / "G.json", "sm_90a", {key: entry(library, runners=(("{", 13.0), (found, 14.0)))})
    assert library in schedule()[0] and found in schedule(matmul="generated")[0] and library in schedule(matmul="library")[0]
    add(folder / "G.json", "sm_90a", {key: entry('{generator = "of another version"}', runners=((found, 14.0),))})
    assert found in schedule()[0] and 'generator = "cublaslt"' in schedule(matmul="library")[0]
    add(folder / "G.json", "sm_90a", {key: entry(library, runners=((found, 26.0),))})
    assert schedule(matmul="generated")[0] == plain


def test_without_the_library_its_calls_were_not_measured(folder, monkeypatch):
    library = '{algorithm = 2 : i64, generator = "cublaslt", workspace = 1024 : i64}'
    entries = {"a" * 40: entry(library), "b" * 40: entry(library, runners=((SLOWER, 13.0),)), "c" * 40: entry()}
    add(folder / "G.json", "sm_90a", {**entries, "a" * 40: Entry(library, 12.5, "", 25.0, (), 7, "mm", "abc", 1.7e9)})
    assert known_schedules(TARGET)["a" * 40] == library
    monkeypatch.setattr(database, "library_path", lambda: None)
    assert known_schedules(TARGET) == {"b" * 40: SLOWER, "c" * 40: SLOWER}


@pytest.mark.covering
@pytest.mark.parametrize("schedule", ['{generator = "of another version", tile = 1 : i64}', SLOWER.replace("64", "48"), '{generator = "wgmma"}', "damaged"])
def test_what_is_not_valid_any_more_is_ignored(folder, schedule, caplog):
    plain = chosen()
    add(folder / "G.json", "sm_90a", {key: entry(schedule) for key in plain.known})
    caplog.set_level(logging.WARNING, "inferno")
    assert chosen().ir("scheduled") == plain.ir("scheduled")
    assert len([r for r in caplog.records if "is ignored" in r.getMessage()]) == 1


def test_knobs_that_an_older_version_did_not_have_are_as_usual(folder, caplog):
    older = SLOWER.replace(", tile = 0 : i64", "")
    for key in chosen().known:
        add(folder / "G.json", "sm_90a", {key: entry(older)})
    assert older not in SLOWER and SLOWER in chosen().ir("scheduled") and "is ignored" not in caplog.text


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without a GPU")
def test_tuning_needs_the_gpu(capsys, monkeypatch):
    for target, here in (("sm_90a", "a GPU of target sm_90a; here is no GPU"), (None, "the target is cpu, which is none")):
        with pytest.raises(TuneError, match=f"tuning needs the GPU that it is for.*{here}"):
            inferno.compile(torch.relu, torch.randn(3), tune=True, target=target)
    with pytest.raises(Exception, match="tuning needs the GPU that it is for"):
        torch.compile(lambda x: torch.relu(x) + 1, backend="inferno", options={"tune": True})(torch.randn(3))
    with pytest.raises(OptionError, match="option tune: expected True or False"):
        inferno.compile(torch.relu, torch.randn(3), tune="yes")
    assert main(["tune", "-c", "torch.relu(torch.randn(3))", "--target", "sm_90a"]) == 1
    assert "TuneError: tuning needs the GPU that it is for" in capsys.readouterr().err
    assert main(["compile", "-c", "torch.relu(torch.randn(3))", "--tune"]) == 1
    monkeypatch.setattr(database, "gpus_of", lambda target: [torch.device("cuda", 0)])
    monkeypatch.setenv("INFERNO_TUNED", "0")
    with pytest.raises(TuneError, match="INFERNO_TUNED"):
        inferno.compile(torch.relu, torch.randn(3), tune=True, target="sm_90a")


def test_show_lists_the_entries(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("COLUMNS", raising=False)  # as wide as where there is no terminal
    monkeypatch.setattr("inferno.tools.tune.SHIPPED", tmp_path / "shipped")
    assert main(["tune", "show"]) == 0
    assert capsys.readouterr().out == f"{folder}: 0 tuned kernels\n"
    add(folder / "NVIDIA-H200.json", "sm_90a", {"a" * 40: entry(kernel="matmul_relu"), "b" * 40: entry(kernel="wrong", model_time=None)})
    add(folder / "NVIDIA-A100.json", "sm_80", {"c" * 40: entry(kernel="softmax")})
    assert main(["tune", "show"]) == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    rows = [row for row in rows if row[0]]  # without what is on a second line
    schedule = "elementwise across=1 backwards=false threads=64"
    assert rows[:2] == [
        ["NVIDIA-A100", "sm_80", "softmax", "12.50", "25.00", "2.00", "7", schedule, "2023-11-14"],
        ["NVIDIA-H200", "sm_90a", "matmul_relu", "12.50", "25.00", "2.00", "7", schedule, "2023-11-14"],
    ] and rows[2][2:6] == ["wrong", "12.50", "wrong", ""]
    assert main(["tune", "show", "--target", "sm_90a"]) == 0
    out = capsys.readouterr().out
    assert "softmax" not in out and "2 tuned kernels for sm_90a" in out
    assert main(["tune", "show", "--target", "sm_99"]) == 2


def test_the_file_is_json_that_a_person_can_read(folder):
    add(folder / "G.json", "sm_90a", {"a" * 40: entry()})
    data = json.loads((folder / "G.json").read_text())
    assert data["format"] == 1 and data["gpu"] == "G" and data["entries"]["sm_90a"]["a" * 40]["time"] == 12.5


SHIPPED = database.SHIPPED  # before a test puts another folder in its place


def shipped_kernels():
    """The kernels that entries are of, by their keys: texts with sizes in place of $0, $1, ..."""
    for group in json.loads((Path(__file__).parent / "shipped_kernels.json").read_text()):
        form = "\n".join(group["form"])
        for key, sizes in group["kernels"].items():
            yield key, re.sub(r"\$(\d+)", lambda m, sizes=sizes: str(sizes[int(m[1])]), form)


def test_this_version_has_what_comes_with_inferno():
    """Every schedule of every entry can be read, and is one that its kernel may have; of 3 the sizes are not known any more."""
    files = list(SHIPPED.glob("*.json"))
    assert [p.stem for p in files] == ["NVIDIA-H200"]
    found, texts = read(files[0]), dict(shipped_kernels())
    assert list(found) == ["sm_90a"] and texts.keys() <= found["sm_90a"].keys() and len(found["sm_90a"].keys() - texts.keys()) <= 3
    with idle_context():
        for key, e in found["sm_90a"].items():
            assert all(from_attribute(ir.Attribute.parse(text)).generator in generators("nvptx") for text in e.ranking)
            if key in texts:
                module = ir.Module.parse(texts[key])
                kernel = kernels(module)[0]
                assert key_of(kernel) == key
                assert [text for text in e.ranking if read_known(kernel, text, TARGET) is None] == []
