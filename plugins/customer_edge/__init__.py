"""Customer edges of MAP-E, MAP-T and lw4o6."""
