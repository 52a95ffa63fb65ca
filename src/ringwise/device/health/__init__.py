"""Health of chips: fault codes, their levels, and the rules about how often and how long they may occur."""
