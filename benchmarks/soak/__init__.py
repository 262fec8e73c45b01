"""Mixed load on the whole service for half an hour."""
