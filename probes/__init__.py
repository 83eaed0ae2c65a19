"""One file a probe. `evidence` is what each is given and gives back; `asking` is what they ask with."""
