"""Open questions of the survey; docs/open_questions tells of the answers."""
