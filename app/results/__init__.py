"""What the measuring commands found: numbers, conclusions, and their formatting."""
