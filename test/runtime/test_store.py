"""The store: entries that come back as they were, or not at all; its bound; what a killed process leaves."""

import os
import time

import pytest

from inferno.runtime.cache.store import Damaged, Store, pack, read_header, unpack

KEY, OTHER = "0a" * 20, "0b" * 20
PARTS = {"text": b"a long text " * 100, "code": bytes(range(256)), "nothing": b""}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", 1 << 20)


def fill(store, count, size=1000, first=0):
    """Entries of random bytes, each used a second after the one before it, an hour ago."""
    for i in range(first, first + count):
        store.write("kernel", f"{i:040x}", {}, {"data": os.urandom(size)})
        path = store.path("kernel", f"{i:040x}")
        if path.exists():
            os.utime(path, (time.time() - 3600 + i,) * 2)


def test_an_entry_comes_back_as_it_was(store):
    store.write("kernel", KEY, {"name": "sum"}, PARTS)
    header, parts = store.read("kernel", KEY)
    assert parts == PARTS and header["name"] == "sum"
    assert read_header(store.path("kernel", KEY))["name"] == "sum"
    assert store.path("kernel", KEY).stat().st_size < sum(map(len, PARTS.values())), "texts are compressed"
    assert store.read("kernel", OTHER) is None and store.read("program", KEY) is None


def test_a_second_write_replaces_the_first(store):
    store.write("kernel", KEY, {}, {"a": b"1"})
    store.write("kernel", KEY, {}, {"a": b"2"})
    assert store.read("kernel", KEY)[1] == {"a": b"2"}
    assert len(store.entries()) == 1


def test_every_cut_and_every_changed_byte_is_noticed():
    data = pack({"kind": "kernel"}, {"text": b"some text", "code": b"\x00\x01"})
    assert unpack(data)[1] == {"text": b"some text", "code": b"\x00\x01"}
    for size in range(len(data)):
        with pytest.raises(Damaged):
            unpack(data[:size])
    for i in range(len(data)):
        with pytest.raises(Damaged):
            unpack(data[:i] + bytes([data[i] ^ 0x10]) + data[i + 1:])
    with pytest.raises(Damaged):
        unpack(data + b"\0")


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-5], lambda d: b"\0" * len(d), lambda d: b"inferno cache 0\n" + d[16:]])
def test_a_damaged_entry_is_missing_and_says_so_once(store, caplog, damage):
    store.write("kernel", KEY, {}, PARTS)
    path = store.path("kernel", KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert store.read("kernel", KEY) is None
    assert store.read("kernel", KEY) is None
    assert [r.levelname for r in caplog.records] == ["WARNING"] and str(path) in caplog.text
    store.write("kernel", KEY, {}, PARTS)
    assert store.read("kernel", KEY)[1] == PARTS


def test_an_entry_under_another_key_is_not_taken(store):
    store.write("kernel", KEY, {}, PARTS)
    other = store.path("kernel", OTHER)
    other.parent.mkdir()
    os.replace(store.path("kernel", KEY), other)
    assert store.read("kernel", OTHER) is None and not other.exists()


def test_the_store_stays_within_its_bound_and_keeps_what_was_used_last(tmp_path):
    store = Store(tmp_path / "store", 20_000)
    fill(store, 12)
    assert store.read("kernel", f"{0:040x}"), "reading is use"
    fill(store, 30, first=12)
    assert sum(e.bytes for e in store.entries()) <= 20_000
    left = {e.path.name for e in store.entries()}
    assert f"{41:040x}" in left and f"{0:040x}" in left and f"{1:040x}" not in left


@pytest.fixture
def listings(monkeypatch):
    """How often entries were listed."""
    found, entries = [], Store.entries
    monkeypatch.setattr(Store, "entries", lambda store: found.append(store) or entries(store))
    return found


def test_entries_are_listed_once_for_all_processes(tmp_path, listings):
    for i in range(4):  # each is what another process has
        fill(Store(tmp_path / "store", 20_000), 3, first=3 * i)
    assert len(listings) == 1, "at the first write"
    for i in range(4, 8):
        fill(Store(tmp_path / "store", 20_000), 3, first=3 * i)
    assert 1 < len(listings) < 6, "and each time that entries may be too many"
    assert sum(e.bytes for e in Store(tmp_path / "store", 20_000).entries()) <= 20_000
    fill(Store(tmp_path / "store", 5_000), 1, first=30)
    assert sum(e.bytes for e in Store(tmp_path / "store", 5_000).entries()) <= 5_000, "the bound is another"


@pytest.mark.parametrize("text", ["", "12", "x 1\n", "0 1\n"])
def test_entries_are_listed_where_nobody_knows_what_they_come_to(tmp_path, listings, text):
    """The last one was found out long ago."""
    fill(Store(tmp_path / "store", 20_000), 9)
    (tmp_path / "store" / "format-1" / "total").write_text(text)
    store = Store(tmp_path / "store", 5_000)
    fill(store, 1, first=9)
    assert len(listings) == 2 and sum(e.bytes for e in store.entries()) <= 5_000
    assert store.clear() and not (tmp_path / "store" / "format-1" / "total").exists()


def test_what_a_killed_process_counted_is_found_not_to_be_there(tmp_path, listings, monkeypatch):
    store = Store(tmp_path / "store", 20_000)
    fill(store, 3)
    monkeypatch.setattr("inferno.runtime.cache.store.write_whole", lambda *_: os._exit(9))
    for _ in range(4):
        if (child := os.fork()) == 0:
            store.write("kernel", OTHER, {}, {"data": os.urandom(5_000)})
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    monkeypatch.undo()
    fill(store, 1, first=3)
    assert len(store.entries()) == 4, "nothing was removed"


def test_a_process_that_lists_is_not_joined(tmp_path, listings):
    store = Store(tmp_path / "store", 20_000)
    with store._total.listing() as alone:
        assert alone
        fill(Store(tmp_path / "store", 20_000), 2)
    assert not listings
    fill(store, 1, first=2)
    assert len(listings) == 1


@pytest.mark.parametrize("error", [NotImplementedError, OSError])
def test_without_locks_a_process_counts_for_itself(tmp_path, listings, monkeypatch, error):
    class NoLock:
        def __init__(self, path):
            raise error

    monkeypatch.setattr("inferno.runtime.cache.total.FileLock", NoLock)
    store = Store(tmp_path / "store", 20_000)
    fill(store, 30)
    assert sum(e.bytes for e in store.entries()) <= 20_000 and 1 < len(listings) < 12


def test_an_entry_beyond_the_bound_is_not_kept(tmp_path):
    store = Store(tmp_path / "store", 500)
    fill(store, 1)
    assert store.entries() == []


def test_what_dead_processes_left_is_removed(store):
    store.write("kernel", KEY, {}, PARTS)
    waiting = store.path("kernel", KEY).parents[2] / "tmp"
    old, new = waiting / "old", waiting / "new"
    old.write_bytes(b"half an entry")
    new.write_bytes(b"half an entry")
    os.utime(old, (time.time() - 7200,) * 2)
    store.trim()
    assert not old.exists() and new.exists()
    assert len(store.entries()) == 1


def test_clear_leaves_other_files_alone(store):
    fill(store, 3)
    root = store.path("kernel", KEY).parents[3]
    mine = [root / "notes.txt", root / "format-1" / "notes.txt", root / "v1" / "kernel" / "0a" / KEY]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the user's")
    assert len(store.clear()) == 3
    assert store.entries() == [] and all(p.exists() for p in mine)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(tmp_path, caplog):
    folder = tmp_path / "store"
    folder.mkdir(mode=0o500)
    _check_unwritable(Store(folder, 1 << 20), caplog)


def test_a_folder_that_cannot_be(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    _check_unwritable(Store(tmp_path / "file" / "store", 1 << 20), caplog)


def _check_unwritable(store, caplog):
    for _ in range(2):
        store.write("kernel", KEY, {}, PARTS)
        assert store.read("kernel", KEY) is None
        with store.lock(KEY):
            pass
    assert sum(r.levelname == "WARNING" for r in caplog.records) == 1
    assert "INFERNO_CACHE_DIR" in caplog.text


def test_a_lock_is_waited_for_by_other_threads(store):
    from concurrent.futures import ThreadPoolExecutor

    inside, most = 0, 0

    def work(_):
        nonlocal inside, most
        with store.lock(KEY):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(8)))
    assert most == 1
