"""Half-open intervals of integers, as pairs (start, end) with start < end."""
