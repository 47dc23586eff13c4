"""What is memorized: data sets, their generators, and how tokens are made of text and images."""
