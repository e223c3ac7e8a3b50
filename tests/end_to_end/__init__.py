"""`codehub up` and `codehub serve coordinator` as real processes: started, watched, killed."""
