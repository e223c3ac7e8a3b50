"""The pages of the dashboard: each file one kind of page, `routes` puts them together.

They only read (`store`) and ask (`service`), like the API beside them; how a page looks is in
`render/dashboard*.py` and `templates/dashboard*`.
"""
