"""`python -m formatkit.cli` is the command `formatkit`, and `spark-submit …/formatkit/cli/__main__.py` runs it, too."""

import sys
from pathlib import Path

if __name__ == "__main__":
    here = str(Path(__file__).parent)
    # A script that is run by its path finds what lies beside it first: here modules of ours with everyday names.
    sys.path[:] = [each for each in sys.path if each != here]

    from formatkit.cli.app import main

    main()
