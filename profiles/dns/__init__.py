"""DNS messages as arrays: names that hold addresses, questions, answers and their verdicts."""
