"""Viewer: scenes as a page that plays in a browser, as an animation, or as a picture; it knows no environment."""
