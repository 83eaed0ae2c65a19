"""Generated answers with labels: what a healthy engine says, also where it looks like a loop, and how answers decay.

`development` was at hand when fleet/proof/degeneration.py was written. `held_out` was written afterwards: on its first run
(60 seeds) no sound answer was taken for a loop, and 35 of 8,280 degenerate ones were missed (short loops in scripts
without spaces, salad of many words). Both were corrected, and `third` was written after that: it showed one more
miss, paragraphs that stand there three times and then end. Other answers may show more.
"""
