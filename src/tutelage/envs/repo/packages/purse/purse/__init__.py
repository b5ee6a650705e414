"""Money as whole cents."""
