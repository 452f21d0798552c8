"""Traffic: the model plugins speak, the compiler to TRex streams, and the expander."""
