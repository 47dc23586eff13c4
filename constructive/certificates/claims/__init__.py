"""What a certificate can claim: one file a claim, each with its proof."""
