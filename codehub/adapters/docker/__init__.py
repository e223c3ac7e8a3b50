"""Workspaces as containers of a Docker engine: the runtime for everything that is shared.

Each workspace is a container with a home volume and one port on the engine's loopback. What the hub
knows of them it reads from the engine: names and labels say what is ours, and nothing is kept in
memory that a restarted hub would miss.

    engine    the SDK in threads, each call with a time limit; streams
    translate the SDK's errors into our errors
    labels    names and labels, written and read back
    marker    how a hub knows its engine again
    numbering which engines are refused for how they number users
    network   the bridge its workspaces share, on which they do not see each other
    volumes   homes
    listing   everything of the hub, in two calls
    image     is it there, else pull it
    recipe    what a container is made of, and what it can never be
    cover     no volume of the image lies over a home
    home      a new home belongs to the user of the image
    site      the parts of one hub on one engine
    start     the steps of a start, in their order
    probe     does the port answer
    stop      stop and remove
    removal   remove a container
    copying   a home for the copy calls of a storage job, without its directory
    output    logs, CPU and memory, events
    presence  is there an engine that can be used
    survey    what it is like, and whether it is the hub's
"""

from codehub.adapters.docker.runtime import DockerRuntime

__all__ = ["DockerRuntime"]
