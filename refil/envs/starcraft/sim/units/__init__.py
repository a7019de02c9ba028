"""Unit types, one file each: `UNIT` as in SMAC's maps, and `SMACLITE` with SMAClite's numbers where it has the unit.

SMAC's maps use the Wings of Liberty catalogue (docs/fidelity.md); SMAClite's speeds are for its longer tick of 1/16 of a
"faster" second.
"""
