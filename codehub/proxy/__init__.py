"""The front of the hub: one address for its own pages and for every workspace's.

The wire: `server` and `client` take connections, `parsing` reads heads strictly, `heads` writes
them anew, `exchange` stands between a request and its answer, `upstream` and `pool` keep
connections to workspaces, `bodies` and `insert` pass and change bodies, `tunnel` and `frames` carry
WebSockets.

The gate: `gate` judges each request by `hosts`, `identity`, `table` and `visit`; `onward` says what
a workspace gets to see; `wake` asks for one that sleeps.

What the hub says: `outcome` is the table of situations, `notices` the answers, `own` and what
begins with it the hub's own addresses, `home` the front page, `follow` the events of a page that
waits.

Activity: `watch` judges what passes, `reports` hears what pages tell, `activity` takes it to Redis.

`seam` is what wire and gate say to each other; `process` puts everything together.
"""
