"""Generate the numbers and tables in hand-written pages from the sources."""
