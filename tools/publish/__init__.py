"""Write the page of a campaign that is published with the documentation."""
