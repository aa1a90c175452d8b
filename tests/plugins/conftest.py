"""The example of a package of plug-ins, importable without being installed."""

import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("example") / "src"
if str(SOURCE) not in sys.path:
    sys.path.append(str(SOURCE))
