"""What families of technologies share."""
