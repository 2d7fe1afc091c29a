"""The running program: settings, composition, transports, command line."""
