"""The web application: API, events and dashboard, behind the proxy.

`hub` is what every request works with, `who` finds out who asks, `problems` says what went wrong,
`app` puts the routes together, `process` serves them. The routes of the API are in `api`, those of
the pages in `pages`; both only read and ask `service`, which has the rules.
"""
