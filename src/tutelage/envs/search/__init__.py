"""Multi-hop question answering: search passages, then answer. `env` is the environment, `corpus` makes its own world."""
