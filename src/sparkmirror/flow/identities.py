"""Which alias is which cluster, as the clusters themselves say.

Two aliases for one cluster would be two mirrors of the same data, or a loop that no topic name shows. Where that is
meant, such as to read one cluster in two ways, the file says so.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, ClusterId, FlowName


def to_itself(file: str, flow: FlowName, cluster_id: ClusterId, places: str = "") -> ConfigError:
    """What is told of a flow whose sides are one cluster.

    Args:
        file: the configuration file.
        flow: its name.
        cluster_id: of both.
        places: their addresses, where they are known.
    """
    return ConfigError(
        file=file,
        key=f"{flow}.enabled",
        reason=f"{flow.source} and {flow.target} are one cluster, with the id {cluster_id}{places}",
        remedy="correct the bootstrap.servers of one of them",
    )


def one_cluster(file: str, aliases: Sequence[Alias], cluster_id: ClusterId, places: str = "") -> ConfigError:
    """What is told where several aliases are one cluster; arguments as above."""
    return ConfigError(
        file=file,
        key="clusters",
        reason=f"{' and '.join(aliases)} are one cluster, with the id {cluster_id}{places}",
        remedy="correct the bootstrap.servers of one of them, or use one alias; "
        "if it is meant, set several.aliases.per.cluster = true",
    )


class Identities:
    """The clusters of one run; asked by all of its flows, from their threads.

    Args:
        file: the configuration file, for messages.
        several: whether a cluster may have several aliases.
    """

    def __init__(self, file: str, *, several: bool = False) -> None:
        self._file = file
        self._several = several
        self._lock = threading.Lock()
        self._aliases: dict[ClusterId, Alias] = {}

    def claim(self, alias: Alias, cluster_id: ClusterId) -> None:
        """An alias has turned out to be this cluster.

        Raises:
            ConfigError: another alias is the same cluster.
        """
        with self._lock:
            known = self._aliases.setdefault(cluster_id, alias)
        if known != alias and not self._several:
            raise one_cluster(self._file, (known, alias), cluster_id)
