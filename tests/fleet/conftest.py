"""Property tests here have no time limit an example: the machine may be busy with a lab."""

from hypothesis import settings

settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")
