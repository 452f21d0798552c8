"""What runs in the interpreter of TRex's client: Python 3.8 or newer, standard library only.

:mod:`v6t.drivers.trex.channel` hands these modules over as text, possibly to another machine: nothing
of v6t is installed there.
"""
