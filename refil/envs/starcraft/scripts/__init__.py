"""What scripted allies do, one file each: `command(battle, world, key)` gives them their orders for a step."""

NEEDED = ("command",)  # of a file of one's own
