"""What the text of the survey says."""
