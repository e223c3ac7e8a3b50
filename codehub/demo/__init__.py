"""The example workspace application: a page of notes and a small terminal, on the standard library.

It is what `codehub init` gives people to try, and the smallest application that shows what a
workspace keeps (a file in its home) and what a proxy must carry (HTTP, uploads, WebSockets).

    messages   HTTP/1.1 requests and responses      notes      the file in the home
    websocket  the server's side of RFC 6455        terminal   what the terminal answers
    server     connections and routes               static/    the page
"""
