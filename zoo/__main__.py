"""``python -m zoo``: the command ``zoo``, where its folder is not on the path."""

import sys

from zoo.cli import main

if __name__ == "__main__":
    sys.exit(main())
