"""Connect, and reconnect, to a scheduler that may be restarted."""

from __future__ import annotations

from distributed import Client, Security
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

_ATTEMPT = 10.0  # seconds for one attempt to connect
_LONGEST = 30.0  # maximal seconds between attempts


class SchedulerConnection:
    """Connections to one address, one at a time.

    Parameters
    ----------
    address, security
        Address and TLS settings of the scheduler.
    patience
        Seconds that a lost scheduler may take to come back.
    """

    def __init__(self, address: str, security: Security | None, patience: float) -> None:
        self._address, self._security, self._patience = address, security, patience
        self._client: Client | None = None

    def connect(self, patience: float) -> Client:
        """Connect, with retries until the scheduler answers.

        Raises
        ------
        OSError
            If it does not answer within ``patience`` seconds.
        """
        attempts = Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(patience),
            wait=wait_random_exponential(max=_LONGEST),
            reraise=True,
        )
        try:
            self._client = attempts(self._dial, min(_ATTEMPT, patience))
        except OSError as error:
            raise OSError(
                f"no scheduler answers at {self._address} within {patience:g} seconds: {error}"
            ) from None
        return self._client

    def reconnect(self) -> Client:
        """Close the connection, and connect again as soon as the scheduler is back.

        Raises
        ------
        OSError
            If it does not come back within ``patience`` seconds.
        """
        self.close()
        return self.connect(self._patience)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close(timeout=_ATTEMPT)
            self._client = None

    def _dial(self, timeout: float) -> Client:
        return Client(self._address, security=self._security, timeout=timeout, set_as_default=False)
