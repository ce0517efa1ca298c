"""Tokens of OAUTHBEARER as connections use them: kept, replaced in time, and fetched beside the network loop.

One keeper for each login that a process knows, so clients with the same settings share a token, and so do all
connections of a lane. A token is fetched on a thread, never on the loop: a slow endpoint must not hold up batches.
While a token still holds, a failure to replace it is only noted; who needs one and has none is told.

Kafka's Java client replaces a token on a timer. Here it is replaced when a login needs one behind that moment. That is
early enough: a broker gives a session no longer a life than its token has, and connections log in again at 85 to 95 %
of it (KIP-368). Should that be before the moment, the next session is the shorter one that is left of the old token.

Reference: ``ExpiringCredentialRefreshingLogin.refreshMs``.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from sparkmirror.config.security_settings import OAuth, Refresh
from sparkmirror.kafka.login_errors import LoginDelayedError, LoginRefusedError
from sparkmirror.kafka.token_sources import Token, obtain

log = logging.getLogger(__name__)

LOOK_S = 0.02
SPARE_S = 1.0
"""How long a login waits for a new token while the old one still holds."""

UNKNOWN_LIFE_S = 60.0
"""How long a token is used that does not tell its end."""


def refresh_at(token: Token, rule: Refresh, now: float, chance: float) -> float:
    """When a token should be replaced, in seconds since 1970.

    Args:
        token: the token.
        rule: the settings.
        now: when it was fetched.
        chance: from 0 to 1, for the jitter.
    """
    if token.ends is None:
        return now + UNKNOWN_LIFE_S
    part = rule.window_factor + rule.window_jitter * chance
    if now + rule.min_period_s + rule.buffer_s > token.ends:
        return now + (token.ends - now) * part
    wanted = token.begins + (token.ends - token.begins) * part
    latest = token.ends - rule.buffer_s
    return latest if wanted > latest else max(wanted, now + rule.min_period_s)


class _Attempt:
    """A fetch on its way.

    Attributes:
        over: set when it has ended.
        failure: why it ended without a token; before that, the newest failure that is tried again.
    """

    def __init__(self) -> None:
        self.over = threading.Event()
        self.failure: Exception | None = None

    def note(self, failure: Exception) -> None:
        """Remembers a failure."""
        self.failure = failure


class Keeper:
    """Holds the token of one login."""

    def __init__(self, login: OAuth) -> None:
        self._login = login
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._refresh_at = 0.0
        self._attempt: _Attempt | None = None

    def needed(self) -> _Attempt | None:
        """None while the token is good; else a fetch that is on its way, begun if there was none."""
        with self._lock:
            if self.usable() and time.time() < self._refresh_at:
                return None
            if self._attempt is None or self._attempt.over.is_set():
                self._attempt = _Attempt()
                threading.Thread(target=self._fetch, args=(self._attempt,), name="token", daemon=True).start()
            return self._attempt

    def usable(self) -> bool:
        """Whether a broker would take the token, as far as its own words go."""
        token = self._token
        return token is not None and (token.ends is None or time.time() < token.ends)

    def value(self) -> str:
        """The token.

        Raises:
            LoginDelayedError: there is none that holds.
        """
        token = self._token
        if token is None or not self.usable():
            raise LoginDelayedError("there is no token that is still good", "")
        return token.value

    def _fetch(self, attempt: _Attempt) -> None:
        try:
            token = obtain(self._login, attempt.note)
            now = time.time()
            with self._lock:
                self._token = token
                self._refresh_at = refresh_at(token, self._login.refresh, now, random.random())
            attempt.failure = None
        except (LoginDelayedError, LoginRefusedError) as failure:
            attempt.failure = failure
        except Exception as failure:  # noqa: BLE001  # a thread has nobody to tell; who waits is told
            attempt.failure = LoginDelayedError(f"no token: {type(failure).__name__}", "report this")
        finally:
            attempt.over.set()


_keepers: dict[OAuth, Keeper] = {}
_keepers_lock = threading.Lock()


def keeper_of(login: OAuth) -> Keeper:
    """The keeper of a login, one for the process."""
    with _keepers_lock:
        return _keepers.setdefault(login, Keeper(login))


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python carries no types
    """What kafka-python asks for tokens, once `ready` has seen to it that there is one."""

    def __init__(self, login: OAuth) -> None:
        super().__init__()
        self._keeper, self._extensions = keeper_of(login), dict(login.extensions)

    async def ready(self, loop: Any, timeout_at: float) -> None:
        """Returns when there is a token to log in with.

        Args:
            loop: the network loop that this runs on.
            timeout_at: the deadline, of the monotonic clock.

        Raises:
            LoginRefusedError: there will be none.
            LoginDelayedError: there is none yet.
        """
        attempt = self._keeper.needed()
        if attempt is None:
            return
        if self._keeper.usable():  # nobody waits long for a better one
            timeout_at = min(timeout_at, time.monotonic() + SPARE_S)
        while not attempt.over.is_set():
            if time.monotonic() >= timeout_at:
                if self._keeper.usable():
                    return
                raise attempt.failure or LoginDelayedError(
                    "no token has come in time yet", "is the token endpoint slow?"
                )
            await loop.sleep(LOOK_S)
        if attempt.failure is None:
            return
        if not self._keeper.usable():
            raise attempt.failure
        log.warning("a token could not be replaced yet, the old one still holds: %s", attempt.failure)

    def token(self) -> str:
        """The token, for the broker only."""
        return self._keeper.value()

    def extensions(self) -> dict[str, str]:
        """What goes to the broker beside the token."""
        return self._extensions
