"""From trials to the numbers the RFCs ask for."""
