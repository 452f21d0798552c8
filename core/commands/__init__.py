"""One module per subcommand, each with its click command named ``command``."""
