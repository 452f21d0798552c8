"""From the traffic model to TRex streams."""
