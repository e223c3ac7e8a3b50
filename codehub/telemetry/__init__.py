"""What operators look at from outside: figures for Prometheus, and lines in a log.

`instruments` defines every figure, in kinds that `metric` makes; `traffic` counts for the proxy,
which has no time for more. `exposition` shows them, `logs` sets up logging and what lines carry.
"""
