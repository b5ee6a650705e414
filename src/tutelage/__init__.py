"""tutelage: train multi-turn LM agents with an expert in the loop."""

__version__ = "0.1.0"
