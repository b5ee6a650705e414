"""Code that also runs by itself, on either side of the wall: standard library only, relative imports only."""
