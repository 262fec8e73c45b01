"""The charts of the reports: each a function from numbers to a drawing and a table of the same."""
