"""Storage jobs: moving a home between its volume and the object store, in a process of their own.

    python -m codehub.jobs archive|restore|empty …

A job knows no database. It gets all it needs as arguments and environment, says how far it is as
JSON lines, can be killed at any point without harm, and ends when its parent does.
"""
