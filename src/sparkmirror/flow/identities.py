"""Which alias is which cluster, as the clusters themselves say.

Two aliases for one cluster would be two mirrors of the same data, or a loop that no topic name shows. Where that is
meant, such as to read one cluster in two ways, the file says so.
"""

from __future__ import annotations

import threading

from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, ClusterId


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
            raise ConfigError(
                file=self._file,
                key="clusters",
                reason=f"{known} and {alias} are one cluster, with the id {cluster_id}",
                remedy="correct the bootstrap.servers of one of them, or use one alias; "
                "if it is meant, set several.aliases.per.cluster = true",
            )
