"""The figures of the paper, redone by construction: `constructive figures`.

Each module draws one of them, and says what is measured, proved or estimated in it. Figures are
those of Mahdavi, Liao and Thrampoulidis (ICLR 2024); the drawings, the data and the constructions
are ours.
"""
