"""`sirocco evaluate`, how good the scores of a log are, and `sirocco behaviours`."""
