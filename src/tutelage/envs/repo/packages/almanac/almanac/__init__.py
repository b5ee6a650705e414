"""Dates as tuples (year, month, day) of the Gregorian calendar."""
