"""What is run to make parts of Dovetail."""
