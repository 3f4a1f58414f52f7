"""A process that has imported what lit's tests run, and is forked for each command of theirs.

Imports are most of what the tests would take: ``inferno-opt`` has up to 0.7 s of them, where a pass takes 0.02 s.  A command of a RUN line is
``lit_client.py``, which hands over its arguments, folder, environment and streams, and ends as what runs here in its place does.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

_started: list[tuple] = []  # what ends with this process: a server's folder, and the pipe for whose end the server waits


def start(python_path: str) -> str:
    """The address of a server that ends when this process does."""
    folder = tempfile.TemporaryDirectory(prefix="inferno-lit-")
    address = str(Path(folder.name, "server"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)  # commands may come from now on, and wait until all is imported
    # numpy comes with the bindings; threads would not survive a fork
    environment = {**os.environ, "PYTHONPATH": python_path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(listener.fileno())]
    _started.append((folder, subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment)))
    return address


def serve(listener: socket.socket) -> None:
    programs = _import()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a command is its client
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:  # it has ended
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _run(connection, programs)
        connection.close()


def _import() -> dict:
    """The programs by their modules; with them the dialects and passes, which they import only where they are needed."""
    import filecheck.main
    from erased_handles import erased_kept

    import inferno.mlir
    from inferno.passes import find_pass, pass_names
    from inferno.tools import opt

    for name in pass_names():
        find_pass(name)
    for name in inferno.mlir._DIALECTS:
        getattr(inferno.mlir, name)

    def run_opt() -> int:
        with erased_kept():  # no pass reads what is erased
            return opt.run(sys.argv[1:])

    return {"inferno-opt": run_opt, "FileCheck": filecheck.main.main}


def _run(connection: socket.socket, programs: dict) -> None:
    """Be the process that a client asks for.  A client that hears no status was left by one that a signal ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    for i, stream in enumerate(streams):
        os.dup2(stream, i)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    request = json.loads(message)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    program, *sys.argv[1:] = request["arguments"]
    status = 1
    try:
        status = programs[program]() or 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    connection.send(bytes([status]))
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
