"""An executable called ``clusterscale``: writes down how it is called, and ends as it is told."""

import os
import signal

SCRIPT = """#!/bin/sh
here=$(dirname "$0")
echo "began ${SLURM_JOB_ID:-here} $*" >> "$here/diary"
code=$(sed -n "$(grep -c ^began "$here/diary")p" "$here/endings")
case $code in
  hangs) echo "hangs $$" >> "$here/diary"; exec sleep 3600 ;;
  *) sleep "${LASTS:-0}"; echo "ended ${SLURM_JOB_ID:-here} $code" >> "$here/diary"; exit "$code" ;;
esac
"""


class StandIn:
    """The command in a folder of its own; ``endings`` are exit codes by call, or ``hangs``."""

    def __init__(self, folder, *endings):
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._diary = folder / "clusterscale", folder / "diary"
        (folder / "endings").write_text("".join(f"{each}\n" for each in endings))
        self._diary.write_text("")
        self.path.write_text(SCRIPT)
        self.path.chmod(0o755)

    @property
    def diary(self):
        """Every beginning and end so far, in words."""
        return [line.split() for line in self._diary.read_text().splitlines()]

    def told(self, what):
        """Return the second words of all lines that begin with that one."""
        return [words[1] for words in self.diary if words[0] == what]

    def crash(self):
        """Kill the one that hangs, as a lack of memory would."""
        os.kill(int(self.told("hangs")[-1]), signal.SIGKILL)
