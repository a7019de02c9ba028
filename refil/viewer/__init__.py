"""Shows scenes: as a page that plays in a browser, as a film, as a picture. Knows no game."""
