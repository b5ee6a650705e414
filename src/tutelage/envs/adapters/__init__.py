"""Environments of other libraries and other processes, each played by our contract."""
