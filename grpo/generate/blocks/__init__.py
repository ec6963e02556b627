"""Write the numbers and tables of hand-written pages that the sources know."""
