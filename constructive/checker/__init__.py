"""The checker: what certificates claim is proved here (`__main__` says what stands where)."""
