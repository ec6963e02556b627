"""Why a run is not progressing or has ended: the evidence as lines, causes as rows of data, and their ranking."""
