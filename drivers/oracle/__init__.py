"""Expected frames against received ones, connections included."""
