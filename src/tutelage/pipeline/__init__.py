"""From a recipe to a finished run directory: one module per stage, `run.py` in which they meet.

rollouts -> select -> build -> train -> evaluate -> compare -> report
"""
