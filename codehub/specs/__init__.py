"""Read a spec directory, from disk or from git: everything it declares, or all that is wrong."""
