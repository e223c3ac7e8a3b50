"""Private servers for `codehub up`, so that a first try needs nothing but Python."""
