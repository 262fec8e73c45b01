"""The measuring commands behind their options: what they run and what they print."""
