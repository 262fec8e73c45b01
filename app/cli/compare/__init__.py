"""`sirocco compare`: which of two models is better on the same rows."""
