"""The routes of the API, `/api/v1`: each file one kind of thing."""
