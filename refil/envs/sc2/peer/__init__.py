"""A protocol peer: speaks the protocol of StarCraft II and plays the simulator behind it, for tests without the game."""
