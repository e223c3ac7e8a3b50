"""Faults at every call to the outside, over the real coordinator, store and job code.

script         counts the calls of one leader and strikes at chosen ones
seams          the ports with a script in front of them
connection     the database connection with one
work           storage jobs with one
picture        the world at one moment, to put back and to compare
clock          time that passes for all that is stored
stage          a world in which leaders come and go
invariants     what must hold afterwards, whatever happened
scenarios      what is under way when it strikes, and where it must end
theatre        where scenarios are played, quickly
second_leader  one that sleeps, one in its place, and the first one waking up
actor          leaders that do one thing after the other when told
machine        what the state machine stands on, and its model of the home
presence       who worked when, and whether anybody was put out for idleness
passing        time, people and Redis in the state machine, and who looks after them
"""
