"""Rules of this domain."""
