"""Plans to move running jobs so that one that waits for holes starts now (rule M1)."""
