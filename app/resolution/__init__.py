"""Which names are one thing: pure rules over names and what the graph knows of a pair of them."""
