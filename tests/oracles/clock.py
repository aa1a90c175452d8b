"""A clock that moves only when a test moves it."""


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        """Move on by so many seconds, and return the time."""
        self.now += seconds
        return self.now
