"""docs/ as a site: pages of the project as they are, and a reference made from the code."""
