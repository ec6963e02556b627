"""Rules over the code of rewards that are files of the user's: how it is called, and what it runs."""
