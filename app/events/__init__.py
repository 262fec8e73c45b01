"""Events as trackers send them: their schema, how bodies are read, and which are admitted."""
