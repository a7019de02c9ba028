"""Sweeps: many runs on one machine or several. A run is a folder, and a worker is `refil train --resume` on it."""
