"""Directed graphs as dictionaries: node -> {neighbour: weight}."""
