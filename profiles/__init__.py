"""Traffic: its model, the compiler to TRex streams, and the expander."""
