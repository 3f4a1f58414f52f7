"""How the commands end where their streams do, and at Ctrl-C."""

import os
import signal
import subprocess
import sys

import pytest

import inferno
from inferno.tools.ending import ended


def run(code, **streams):
    """A process that runs ``code`` as a command."""
    program = f"import sys\nfrom inferno.tools.ending import ended\ndef command():\n    {code}\n    return 0\nsys.exit(ended('tool', command))"
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, **streams)


def test_a_reader_that_has_enough_is_told_nothing():
    process = run("[print('line') for _ in range(100_000)]", stdout=subprocess.PIPE)
    assert process.stdout.readline() == "line\n"
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("code", ["print('short')", "[print('long') for _ in range(100_000)]"])
def test_a_full_disk_is_one_line(code):
    with open("/dev/full", "w") as full:
        process = run(code, stdout=full)
    assert process.stderr.read() == "tool: the output: No space left on device\n" and process.wait() == 1


def test_closed_streams_take_everything():
    process = run("print('x'); print('y', file=sys.stderr); return 3", preexec_fn=lambda: os.close(1))
    assert process.stderr.read() == "y\n" and process.wait() == 3


def test_characters_that_the_terminal_lacks():
    process = run("print('a\u2501b')", stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert process.stdout.read() == "a?b\n" and process.wait() == 0


def test_interrupts():
    listen = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 (what a shell runs in the background begins deaf to it)
    process = run("print('ready', flush=True); import time; time.sleep(60)", stdout=subprocess.PIPE, preexec_fn=listen)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == "tool: interrupted\n" and process.wait() == 130


@pytest.mark.parametrize("error, status, message", [
    (inferno.OptionError("unknown option"), 2, "tool: unknown option\n"), (inferno.InputError("a text"), 1, "tool: InputError: a text\n"),
    (FileNotFoundError(2, "No such file or directory", "a/b"), 1, "tool: a/b: No such file or directory\n"),
    (ConnectionError("nobody answers"), 1, "tool: nobody answers\n"),
])
def test_errors(capsys, error, status, message):
    def command():
        raise error

    assert ended("tool", command) == status
    assert capsys.readouterr().err == message


def test_a_fault_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        ended("tool", lambda: 1 // 0)
