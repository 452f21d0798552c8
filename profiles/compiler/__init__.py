"""The compiler from the traffic model to TRex streams."""
