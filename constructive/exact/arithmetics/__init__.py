"""The numbers in which attention is computed: one `Arithmetic` for each kind of them."""
