"""A driver that stands still: ``python -m tests.failover.freezing FLAG run FILE`` runs a flow.

When the file ``FLAG`` is there, it stops itself with SIGSTOP, once, right before it commits what it has translated for
groups.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from sparkmirror.cli.app import main
from sparkmirror.duties import group_offsets
from sparkmirror.kafka import groups


def freezes_before_a_commit(flag: Path) -> None:
    """Has this process stop there."""
    commit_offsets = groups.commit_offsets

    def freezes_and_commits(cluster: Any, offsets: Any, *args: Any, **named: Any) -> Any:
        if offsets and flag.exists():
            flag.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return commit_offsets(cluster, offsets, *args, **named)

    setattr(group_offsets, commit_offsets.__name__, freezes_and_commits)


if __name__ == "__main__":
    freezes_before_a_commit(Path(sys.argv[1]))
    main(sys.argv[2:])
