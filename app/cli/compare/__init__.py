"""`sirocco compare`."""
