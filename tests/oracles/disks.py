"""Disks so small that they are soon full."""

import os
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, megabytes):
    """Mount a disk at ``folder`` and take it away in the end; skip where that cannot be done."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk):
    """Leave no byte free, by a file ``ballast``."""
    with (disk / "ballast").open("wb", buffering=0) as stream:
        for size in (1 << 16, 1 << 9, 1):
            try:
                while stream.write(bytes(size)):
                    pass
            except OSError:
                continue


def make_read_only(disk):
    """Let nobody write to a small disk any more."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
