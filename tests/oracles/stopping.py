"""Run the command line and stop it at an event, so that a test can act there.

``python -P stopping.py CLASS.METHOD COUNT MARKER ARGUMENTS...``: when the method has returned COUNT
times, the file MARKER is made, and the process goes on only when the file is removed.
"""

import importlib
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path


@contextmanager
def stopped(name, n_calls, marker, *arguments):
    """Start the command, yield when it has stopped, and kill it in the end."""
    command = [
        sys.executable,
        "-P",
        __file__,
        name,
        str(n_calls),
        str(marker),
        *map(str, arguments),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not marker.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        marker.unlink(missing_ok=True)


def stop_at(name, n_calls, marker):
    """Let a method wait while ``marker`` exists, which it makes when it was called so often."""
    module, owner, method = name.rsplit(".", 2)
    where = getattr(importlib.import_module(module), owner)
    original, calls = getattr(where, method), count(1)

    def stopping(*args, **kwargs):
        result = original(*args, **kwargs)
        if next(calls) == n_calls:
            marker.touch()
            while marker.exists():
                time.sleep(0.02)
        return result

    setattr(where, method, stopping)


if __name__ == "__main__":
    from clusterscale.cli import main
    from clusterscale.runtime import serial

    serial.BATCH_SECONDS = 0  # each task is kept at once, however fast it is
    stop_at(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    del sys.argv[1:4]
    main()
