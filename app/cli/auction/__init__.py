"""`sirocco auction`."""
