"""The original ALFWorld text game, played through the packages alfworld and textworld (extra ``alfworld``)."""
