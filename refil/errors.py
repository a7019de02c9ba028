"""The error that users see as one sentence instead of a traceback."""


class RefilError(ValueError):
    """A request that cannot be met; the message names the bad value and the choices."""
