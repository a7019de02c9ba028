"""Lab: a local page on which one composes battles, chooses who commands each side, and watches what happens."""
