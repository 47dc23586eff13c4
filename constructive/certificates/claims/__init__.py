"""What `certify` proposes for each claim. What it states, and its proof, are in the checker."""
