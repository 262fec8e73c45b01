"""`sirocco evaluate` and `sirocco behaviours`."""
