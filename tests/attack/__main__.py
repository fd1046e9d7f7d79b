"""`make attack`: attacks the library for some minutes, counts what was tried and keeps what was found.

ATTACK_MINUTES says for how long, ATTACK_SEED which random choices are made, ATTACK_PARTS which parts run. Arguments
are folders of kept cases, which are run again and nothing else.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from attack.run import Attack, run_again

from support.repository import ROOT

FOLDER = ROOT / "build" / "attack"


def main() -> int:
    kept = [Path(name) for name in sys.argv[1:]]
    if kept:
        return run_again(kept, FOLDER)
    attack = Attack(
        seed=int(os.environ.get("ATTACK_SEED") or random.randrange(10**6)),
        seconds=60 * float(os.environ.get("ATTACK_MINUTES") or 10),
        folder=FOLDER,
        parts=[name for name in os.environ.get("ATTACK_PARTS", "").split(",") if name],
        workers=int(os.environ.get("ATTACK_WORKERS") or os.cpu_count() or 1),
    )
    attack.run()
    print(attack.summary())
    return 1 if attack.findings else 0


if __name__ == "__main__":
    sys.exit(main())
