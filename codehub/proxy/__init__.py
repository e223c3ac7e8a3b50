"""The front of the hub: one address for the report and for every workspace's own pages.

front     connections, hosts and origins, what is served and what is forwarded
outcome   what a request gets, by the state of its workspace
routes    names to workspaces and addresses, kept for a second
forward   one request to a workspace and its answer back
splice    WebSockets after the handshake, and what in them counts as activity
wire      heads of messages: read strictly, written anew
body      bodies: framing, chunks, copying with back-pressure
answers   what the front itself says
activity  who was active, on its way to Redis
wake      a visit asks for a workspace
"""
