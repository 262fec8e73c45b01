"""`sirocco auction`: what users would click with another model."""
