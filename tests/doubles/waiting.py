"""Wait for an event. The limit is only there so that a test that failed does not last for ever."""

import time

LIMIT = 300  # seconds: ten times what anything here needs
TICK = 0.1


def wait_for(condition, what, limit=LIMIT):
    """Return the first true value of a condition; fail with what was waited for.

    ``what`` is a text, or a function that returns one.
    """
    until = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"waited {limit} s for {what() if callable(what) else what}")
        time.sleep(TICK)
    return value
