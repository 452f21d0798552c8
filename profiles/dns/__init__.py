"""DNS messages on the wire, as arrays: names that hold numbers, questions, answers, who judges them."""
