"""`ringwise simulate`: what a queue of jobs would have waited, in virtual time, under several configurations.

trace or job mix --> jobs --> the real scheduler, one for each configuration --> waits, idle chips --> report
                 hardware faults, the same for all --^        the counting bound beside them --^
"""
