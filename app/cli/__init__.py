"""The `sirocco` command: one file per command, and what the commands share."""
