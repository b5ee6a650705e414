"""For all tests: Ctrl-C interrupts, also where the tests were started in the background.

A shell starts background jobs with SIGINT ignored, Python then keeps it ignored, and children inherit that; tests that send
the signal, to themselves or to a child, would wait for ever.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
