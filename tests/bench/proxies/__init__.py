"""Proxies under load: those that are compared, what stands behind them, and what loads them.

peers      the proxies: how each is had and started
ours       our own, as a process
gates      what stands in for the gate, or the gate itself
upstream   what is behind them: small and large answers, and an echo
loads      requests by wrk, round trips and idle WebSockets by picows
processes  starting, pinning and measuring processes
"""
