"""Arrays of few bits: each column of a matrix by the rule that stores it in the fewest."""
