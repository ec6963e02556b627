"""Why a run does not go on or has ended: what is known as lines, causes as rows of data, and their rank."""
