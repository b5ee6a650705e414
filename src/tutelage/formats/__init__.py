"""Files of other tools: readers make trajectories of them, writers make them of trajectories."""
