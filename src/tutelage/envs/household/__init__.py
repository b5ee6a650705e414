"""The household game: a pure-Python engine of the ALFWorld text game, its files and its generator."""
