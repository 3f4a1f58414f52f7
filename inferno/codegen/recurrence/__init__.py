"""Equal steps in one launch, recurrent layers among them: ``recurrence``."""
