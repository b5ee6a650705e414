"""Scripts that run inside a sandbox. Each stands alone: standard library, and pytest where it says so."""
