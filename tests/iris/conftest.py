"""Pure code is tested with many examples, and on a busy machine one of them may be slow."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
