"""Files that others never see half of."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes, waiting: Path | None = None) -> None:
    """Write a file so that others see the old one or all of the new one, also if this process is killed: under another name, in the folder
    ``waiting`` (of the same file system; by default the file's own), and then moved into place.  OSError where that cannot be done."""
    number, name = tempfile.mkstemp(dir=waiting or path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
