"""What is proved about a layer and its data, and who checks it."""
