"""What is memorized: datasets, their generators, and how tokens are made of text and images."""
