"""``python -m clusterscale``."""

from clusterscale.cli import main

if __name__ == "__main__":
    main()
