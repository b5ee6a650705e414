"""The repo environment: software tasks in a sandbox."""
