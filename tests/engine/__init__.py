"""A hub whose Docker engine restarts, crashes and hangs under it."""
