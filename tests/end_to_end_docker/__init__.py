"""A hub of real processes with Docker workspaces and an S3 store: a whole life, kills, losses."""
