"""The real StarCraft II (Linux), with the battles of the simulator's task sets and armies."""


def names() -> list[str]:
    """Return the names of the task sets and maps."""
    return []


def summary(name: str) -> str:
    """Return one line about a task set or map."""
    return f"StarCraft II: {name}."


def serve(name: str) -> None:
    """Return the environment plug-in of a name, or None for other names."""
    return
