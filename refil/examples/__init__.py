"""Examples of extensions, one file each: an environment, a utility with memory, a mixing network and a loss.

`docs/extending.md` explains them. Copy one and change it, or train it as it is:
`refil train PATH/beacon.py --method PATH/mingru.py`.
"""
