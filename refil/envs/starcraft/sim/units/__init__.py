"""Unit types, one file each: `UNIT` has the numbers of SMAC's maps, `SMACLITE` those of SMAClite, or None.

SMAC's maps use the Wings of Liberty unit catalog (docs/fidelity.md); SMAClite's speeds are for its longer tick of 1/16 of a
"faster" second.
"""
