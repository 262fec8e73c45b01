"""Parts that are measured inside this process."""
