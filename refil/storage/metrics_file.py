"""The file of metrics: appended to while training, and cut off at its last checkpoint when a run is resumed."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

from refil.errors import RefilError
from refil.storage import records, regular, serialization
from refil.storage.metadata import CheckpointMetadata
from refil.training import stored


class MetricsFile:
    """One JSON object per line; a missing file has no lines, because a run may be killed before it writes the first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """Return the content."""
        return serialization.read_bytes(self.path) if os.path.lexists(self.path) else b""

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def has_learned(self) -> bool:
        """Whether a line may follow an update; if not, the run stopped before it learned anything."""
        try:
            return any(line.get("updates") != 0 for line in records.parse_metrics(self.read(), self.path))
        except RefilError:
            return True

    def checksum(self, size: int) -> str:
        """Return the checksum of the first `size` bytes."""
        return _checksum(self.read()[:size])

    def append(self, lines: list[dict[str, Any]]) -> None:
        """Append lines."""
        with serialization.wrap_os_errors(self.path), regular.open_file(self.path, "a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    def check(self, content: bytes, saved: CheckpointMetadata) -> None:
        """Raise unless the content up to a checkpoint is the one that it was saved with."""
        covered, problem = content[: saved.metrics_bytes], f"{self.path} does not match checkpoint.safetensors"
        if len(covered) < saved.metrics_bytes or not (covered.endswith(b"\n") or not covered):
            raise RefilError(f"{problem}: no line ends at byte {saved.metrics_bytes}, where it was saved")
        if saved.metrics_checksum is None:  # saved by version 0.2.0
            records.parse_metrics(covered, self.path)
        elif saved.metrics_checksum != _checksum(covered):
            raise RefilError(f"{problem}: its first {saved.metrics_bytes} bytes have changed since that was saved")

    def check_seeds(self, content: bytes, saved: CheckpointMetadata) -> None:
        """Raise if a line after a checkpoint, which its checksum does not cover, is of a seed that the run does not have."""
        source = f"the config in {self.path.with_name('checkpoint.safetensors')}"
        seeds = stored.seeds(stored.parse(saved.config, source), source)
        covered = content.count(b"\n", 0, saved.metrics_bytes)
        for number, line in enumerate(records.parse_metrics(content, self.path)[covered:], start=covered + 1):
            if line["seed"] not in seeds:
                raise RefilError(f"{self.path}, line {number}: the run has no seed {line['seed']}")

    def truncate(self, saved: CheckpointMetadata) -> None:
        """Cut off the lines after a checkpoint; raise if those before it are not the ones that it was saved with."""
        self.check(self.read(), saved)
        with serialization.wrap_os_errors(self.path), regular.open_file(self.path, "ab") as file:
            file.truncate(saved.metrics_bytes)


def _checksum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
