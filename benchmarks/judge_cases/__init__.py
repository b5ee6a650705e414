"""Failed episodes whose cause is known by construction: each case scripts one way to fail and says which it is.

The label comes from what the script does on purpose, never from a rule of the judge. Several ways to fail are such that no
rule can see them (a misunderstood question, a wrong file that no text betrays); they are here all the same.
"""
